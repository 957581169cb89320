"""The visits of database roles: who has signed in, until they leave or are idle for too long."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pgtrickle.console.web.seats import Seat, Seats

LONGEST = 12 * 3600.0  # seconds of a visit, however busy
MOST, MOST_OF_A_ROLE = 64, 8  # visits at a time
_EVERY = 15.0  # seconds between two looks at who has left


@dataclass(slots=True)
class Visit:
    """One person at the page, who acts with the rights of one role."""

    seat: Seat
    began: float
    used: float  # when the person last did something
    csrf: str = field(default_factory=lambda: secrets.token_hex(32))
    ended: bool = False


class Visits:
    """All visits, each by the digest of a secret that only its browser has."""

    def __init__(
        self, seats: Seats, idle: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seats = seats
        self._idle = idle
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, Visit] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="visits", daemon=True).start()

    @property
    def full(self) -> bool:
        """Whether nobody else can be let in for the moment."""
        self.sweep()
        return len(self._known) >= MOST

    def begin(self, seat: Seat, secret: str | None = None) -> str:
        """Begin a visit; return its secret, a new one unless one is given.

        A role that has too many visits loses the one that was left alone for the longest time.
        """
        secret = secrets.token_urlsafe(32) if secret is None else secret
        now = self._clock()
        with self._lock:
            self._end(_digest(secret))
            known = self._known
            own = [one for one, visit in known.items() if visit.seat.role == seat.role]
            if len(own) >= MOST_OF_A_ROLE:
                self._end(min(own, key=lambda one: known[one].used))
            known[_digest(secret)] = Visit(seat, now, now)
        return secret

    def find(self, secret: str, *, busy: bool) -> Visit | None:
        """Return the visit with a secret, if it goes on; ``busy``: its person does something."""
        self.sweep()
        with self._lock:
            visit = self._known.get(_digest(secret))
            if visit is not None and busy:
                visit.used = self._clock()
            return visit

    def end(self, secret: str) -> None:
        """End a visit; its secret opens nothing more."""
        with self._lock:
            self._end(_digest(secret))

    def sweep(self) -> None:
        """End the visits that are idle, or too long."""
        now = self._clock()
        with self._lock:
            for one, visit in list(self._known.items()):
                if now - visit.used >= self._idle or now - visit.began >= LONGEST:
                    self._end(one)

    def close(self) -> None:
        """End all of them."""
        self._closed.set()
        with self._lock:
            for one in list(self._known):
                self._end(one)

    def _end(self, digest: bytes) -> None:
        visit = self._known.pop(digest, None)
        if visit is not None:
            self._leave(visit)

    def _leave(self, visit: Visit) -> None:
        visit.ended = True
        self._seats.leave(visit.seat)

    def _watch(self) -> None:
        while not self._closed.wait(_EVERY):
            self.sweep()


def _digest(secret: str) -> bytes:
    """Return what is looked up in place of a secret, so that no time tells how much of it fits."""
    return hashlib.sha256(secret.encode()).digest()
