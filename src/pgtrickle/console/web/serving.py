"""Serve the page at an address, until somebody ends it."""

from __future__ import annotations

import socket
from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote

import uvicorn

from pgtrickle.client.trickle import Trickle
from pgtrickle.console.watching import Watch
from pgtrickle.console.web.app import Site
from pgtrickle.console.web.guard import LOOPBACK, Guard, new_token
from pgtrickle.console.web.hub import Hub

__all__ = ["address", "make_guard", "make_server", "new_token", "serve"]

_PATIENCE = 2  # seconds for pages that look, when we end


def address(listener: socket.socket, token: str) -> str:
    """Return the address at which the page is opened."""
    host, port, *_ = listener.getsockname()
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/" + (f"login?token={quote(token)}" if token else "")


def make_guard(token: str, names: Collection[str], *, read_only: bool) -> Guard:
    """Return the guard of a page that is called by these names, or from this machine."""
    return Guard(token, frozenset({*LOOPBACK, *names}), read_only)


def make_server(trickle: Trickle, watch: Watch, guard: Guard, seconds: float) -> uvicorn.Server:
    """Make a server; ``run`` runs it, and ``should_exit`` ends it."""
    hub = Hub(watch, seconds)
    config = uvicorn.Config(
        Site(trickle, hub, guard).app(),
        log_level="warning",
        access_log=False,  # an address may hold the token
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=200,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_PATIENCE,
    )
    return _Server(config, hub)


class _Server(uvicorn.Server):
    """Ends the streams of events when it ends."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the pages go, and then everything else."""
        self._hub.close()
        await super().shutdown(sockets)


def serve(
    trickle: Trickle, guard: Guard, listener: socket.socket, *, seconds: float, log: Path | None
) -> None:
    """Serve until Ctrl-C."""
    watch = Watch(trickle, log)
    watch.listen()
    try:
        make_server(trickle, watch, guard, seconds).run(sockets=[listener])
    finally:
        watch.close()
