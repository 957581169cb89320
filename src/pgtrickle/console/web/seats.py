"""The clients of roles that have signed in: one for all visits of a role with the same password."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from pgtrickle.client.trickle import Trickle
from pgtrickle.console.watching import Watch
from pgtrickle.console.web.hub import Hub

# Opens a client as a role; without a password, as the server lets this console in as that role.
OpenClient = Callable[[str, str | None], AbstractContextManager[Trickle]]


@dataclass(slots=True)
class Seat:
    """A client with the rights of one role, and what is seen with them."""

    role: str
    trickle: Trickle
    watch: Watch
    hub: Hub
    key: bytes
    resources: ExitStack  # to be closed
    visits: int = 0


class Seats:
    """Opens a client for the first visit of a role, and closes it after the last."""

    def __init__(self, open_client: OpenClient, seconds: float) -> None:
        self._open = open_client
        self._seconds = seconds
        self._lock = threading.Lock()
        self._known: dict[bytes, Seat] = {}
        self._secret = secrets.token_bytes(32)

    def take(self, role: str, password: str | None) -> Seat:
        """Return the seat of a role; the server is asked each time whether it may have it.

        Raises the error with which the server refused.
        """
        resources = ExitStack()
        trickle = resources.enter_context(self._open(role, password))
        given = f"{role}\0{'' if password is None else password}".encode()
        key = hmac.new(self._secret, given, hashlib.sha256).digest()
        with self._lock:
            seat = self._known.get(key)
            if seat is None:
                watch = Watch(trickle)
                watch.listen()
                resources.callback(watch.close)
                seat = Seat(role, trickle, watch, Hub(watch, self._seconds), key, resources)
                self._known[key] = seat
            seat.visits += 1
        if seat.resources is not resources:
            resources.close()
        return seat

    def leave(self, seat: Seat) -> None:
        """Give a seat back."""
        with self._lock:
            seat.visits -= 1
            if seat.visits:
                return
            self._known.pop(seat.key, None)
        seat.hub.close()
        # Its threads end by themselves within seconds, and nobody waits for them.
        threading.Thread(target=seat.resources.close, name="leaving", daemon=True).start()
