"""Serve the page at an address, until somebody ends it."""

from __future__ import annotations

import gc
import ipaddress
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import uvicorn

from pgtrickle.client.trickle import Trickle
from pgtrickle.console.watching import Watch
from pgtrickle.console.web.app import Site
from pgtrickle.console.web.guard import LOOPBACK, Guard, new_token
from pgtrickle.console.web.hub import Hub
from pgtrickle.console.web.proxy_entrance import ProxyEntrance, check_header
from pgtrickle.console.web.role_entrance import RoleEntrance
from pgtrickle.console.web.seats import OpenClient, Seats
from pgtrickle.console.web.token_entrance import TokenEntrance
from pgtrickle.console.web.visitor import Entrance
from pgtrickle.console.web.visits import Visits
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


def make_guard(
    token: str, names: Collection[str], *, read_only: bool, proxies: Collection[str] = ()
) -> Guard:
    """Return the guard of a page that is called by these names, or from this machine."""
    try:
        networks = tuple(map(ipaddress.ip_network, proxies))
    except ValueError as error:
        raise SettingError(
            f"the address of a proxy cannot be read: {error}",
            hint="Write an address or a network: --proxy 192.168.7.2, --proxy 192.168.8.0/24.",
        ) from error
    return Guard(token, frozenset({*LOOPBACK, *names}), read_only, networks)


@dataclass(frozen=True, slots=True)
class SignIn:
    """That people sign in as roles of the database, and how."""

    open_client: OpenClient
    idle: float  # seconds after which a visit ends
    header: str = ""  # in which a proxy names the role; empty: by a form, with a password


def make_entrance(
    guard: Guard, trickle: Trickle, watch: Watch, seconds: float, sign_in: SignIn | None
) -> Entrance:
    """Return the way in: by a token, or as a role."""
    if sign_in is None:
        return TokenEntrance(guard, trickle, Hub(watch, seconds))
    seats = Seats(sign_in.open_client, seconds)
    visits = Visits(seats, sign_in.idle)
    if sign_in.header:
        return ProxyEntrance(guard, check_header(sign_in.header), seats, visits)
    return RoleEntrance(guard, seats, visits)


def make_server(
    trickle: Trickle, watch: Watch, guard: Guard, seconds: float, sign_in: SignIn | None = None
) -> PageServer:
    """Make a server; ``run`` runs it, and ``should_exit`` ends it."""
    entrance = make_entrance(guard, trickle, watch, seconds, sign_in)
    config = uvicorn.Config(
        Site(guard, entrance).app(),
        log_level="warning",
        access_log=False,  # an address may hold the token
        server_header=False,
        proxy_headers=False,  # the guard knows whose are believed
        lifespan="off",
        ws="none",
        limit_concurrency=200,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_PATIENCE,
    )
    return PageServer(config, entrance)


class PageServer(uvicorn.Server):
    """Ends the streams of events when it ends."""

    def __init__(self, config: uvicorn.Config, entrance: Entrance) -> None:
        super().__init__(config)
        self.entrance = entrance

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the pages go, and then everything else."""
        self.entrance.close()
        await super().shutdown(sockets)


@contextmanager
def serving_beside(
    trickle: Trickle, port: int, token: str, sign_in: SignIn | None = None
) -> Iterator[str]:
    """Serve the page to this machine for the length of a block; yields its address, no token."""
    with listen("127.0.0.1", port) as listener:
        watch = Watch(trickle)
        server = make_server(trickle, watch, make_guard(token, (), read_only=False), 1.0, sign_in)
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
    trickle: Trickle,
    guard: Guard,
    listener: socket.socket,
    *,
    seconds: float,
    log: Path | None,
    sign_in: SignIn | None = None,
) -> None:
    """Serve until Ctrl-C."""
    watch = Watch(trickle, log)
    watch.listen()
    gc.freeze()  # modules and classes stay: they are not looked through again each second
    try:
        make_server(trickle, watch, guard, seconds, sign_in).run(sockets=[listener])
    finally:
        watch.close()
