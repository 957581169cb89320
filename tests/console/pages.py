"""The page of the console, served to a test on a free port of this machine."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pgtrickle import Trickle
from pgtrickle.console.watching import Watch
from pgtrickle.console.web.guard import CSRF_HEADER, Guard, Rate
from pgtrickle.console.web.serving import SignIn, address, make_guard, make_server

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105 - of a test


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Site:
    """A page that is served, and who may open it."""

    guard: Guard
    port: int
    url: str  # with the token
    entrance: Any = None

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: object = None,
        token: str | None = TOKEN,
        **headers: str,
    ) -> Answer:
        """Send one request; a header's name has _ for -."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given.setdefault("Authorization", f"Bearer {token}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = body if isinstance(body, bytes) else json.dumps(body).encode() if body else None
        try:
            connection.request(method, path, sent, given)
            found = connection.getresponse()
            return Answer(found.status, found.headers, found.read().decode())
        finally:
            connection.close()

    def act(self, path: str, body: object, **headers: str) -> Answer:
        """Do what the page itself does."""
        given = {CSRF_HEADER: self.guard.csrf, **headers}
        return self.ask(path, method="POST", body=body, **given)

    @contextmanager
    def events(
        self, query: str, token: str = TOKEN, **headers: str
    ) -> Iterator[Iterator[tuple[str, Any]]]:
        """Follow a panel."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {"Authorization": f"Bearer {token}", **headers}
        connection.request("GET", f"/events?{query}", headers=given)
        response = connection.getresponse()

        def each() -> Iterator[tuple[str, Any]]:
            kind = ""
            while line := response.readline().decode().rstrip("\n"):
                yield from ()
                if line.startswith("event: "):
                    kind = line[7:]
                if line.startswith("data: "):
                    yield kind, json.loads(line[6:])
                    response.readline()  # the end of the event

        assert response.readline().startswith(b"retry")
        response.readline()
        try:
            yield each()
        finally:
            connection.close()


@contextmanager
def served(
    trickle: Trickle,
    *,
    read_only: bool = False,
    token: str = TOKEN,
    sign_in: SignIn | None = None,
    proxies: Collection[str] = (),
    watch: Watch | None = None,
) -> Iterator[Site]:
    """Serve the page for a test: of a database, or of one picture if there is such a watch."""
    guard = make_guard(token, (), read_only=read_only, proxies=proxies)
    guard.requests = Rate(burst=10_000, per_second=10_000)
    guard.deeds = Rate(burst=100, per_second=100)
    if watch is None:
        watch = Watch(trickle)
        watch.listen()
    server = make_server(trickle, watch, guard, seconds=0.2, sign_in=sign_in)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Site(guard, listener.getsockname()[1], address(listener, token), server.entrance)
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        watch.close()
        assert not thread.is_alive()
