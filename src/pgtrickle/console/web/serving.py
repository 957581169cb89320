"""Serve the page at an address, until somebody ends it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import uvicorn

from pgtrickle.client.trickle import Trickle
from pgtrickle.console.watching import Watch
from pgtrickle.console.web.app import Site
from pgtrickle.console.web.guard import LOOPBACK, Guard, new_token
from pgtrickle.console.web.hub import Hub
from pgtrickle.errors import SettingError

_SHORTEST = 16  # characters of a token
_PATIENCE = 2  # seconds for pages that look, when we end


def read_token(file: Path | None) -> str:
    """Return the token in a file, or make a new one."""
    if file is None:
        return new_token()
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"the token cannot be read: {error}", hint="Name a text file."
        ) from error
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
        raise SettingError(
            f"the token has fewer than {_SHORTEST} characters, or strange ones",
            hint="Make one with: openssl rand -hex 24.",
        )
    return token


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingError(
            f"cannot listen at {host}, port {port}: {error.strerror}",
            hint="Choose another: 0 takes any free one.",
        ) from error


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


@contextmanager
def serving_beside(trickle: Trickle, port: int, token: str) -> Iterator[str]:
    """Serve the page to this machine for the length of a block; yields its address, no token."""
    with listen("127.0.0.1", port) as listener:
        watch = Watch(trickle)
        server = make_server(trickle, watch, make_guard(token, (), read_only=False), 1.0)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listener]}, name="page", daemon=True
        )
        watch.listen()
        thread.start()
        try:
            yield address(listener, "")
        finally:
            server.should_exit = True
            thread.join(timeout=2 * _PATIENCE)
            watch.close()


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
