"""Ask the daemon for something from Python, and follow the request until it has ended.

A CALL does the same from SQL, by the same function ``follow_request``.  Here each look is a
transaction of its own: whoever is gone without a word looks no more, and the daemon notices.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from pgtrickle.catalog.refreshes.progress import find_progress
from pgtrickle.catalog.requests import (
    Look,
    find_server,
    is_served,
    look_at_request,
    submit_request,
    withdraw_request,
)
from pgtrickle.errors import (
    DaemonMissingError,
    InternalError,
    RequestCancelledError,
    RequestLostError,
    RequestTimeoutError,
    TrickleError,
)
from pgtrickle.model.report import Progress
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.session import Session

WAITING = ": waiting, because "  # in a notice, between the name and what is waited for
_BUSY_SECONDS = 2.0  # after which whoever asked is told that nobody has begun
_SQLSTATE = re.compile(r"(^|\n)SQLSTATE \w{5}$")  # SQL sessions see only our own


@dataclass(frozen=True, slots=True)
class Listeners:
    """The functions that receive messages while the daemon works."""

    tell: Callable[[str], object]  # who does it
    waiting: Callable[[str], object]  # why it has to wait
    progress: Callable[[Progress], object] | None  # how far it is
    progress_seconds: float


@dataclass(slots=True)
class Asked:
    """A request that was made, and how far it is."""

    session: Session
    request: int
    name: QualifiedName | None  # of the stream table that it is about
    listeners: Listeners
    server: str | None = None  # who executes it
    begin_within: float | None = None  # seconds
    shown: int = 0  # notices
    asked_at: float = field(default_factory=time.monotonic)
    progress_told_at: float = field(default_factory=time.monotonic)
    busy_told: bool = False

    def follow(self, *, owned: bool) -> Any:
        """Wait for the answer and return it, or raise the error; whatever ends this, cancels it.

        Those who own the catalog may do themselves what nobody had begun in time, or when the
        daemon ended: ST601.
        """
        try:
            while not (look := self._look()).ended:
                self._tell()
                if self._waited_in_vain:
                    self._take_back(owned=owned)
                time.sleep(look.nap)
        except BaseException:  # Ctrl-C too
            with suppress(psycopg.Error):
                look_at_request(self.session, self.request, self.shown, stop=True)
            raise
        self._tell()
        if look.code is None:
            return self._outcome(look)
        error = _error(look)
        if isinstance(error, RequestLostError) and owned and self._withdraw():
            raise DaemonMissingError(
                "the pgtrickle daemon ended before it began", hint="Start it with: pgtrickle run."
            )
        raise error

    @property
    def _waited_in_vain(self) -> bool:
        limit = self.begin_within
        return (
            self.server is None and limit is not None and time.monotonic() > self.asked_at + limit
        )

    def _take_back(self, *, owned: bool) -> None:
        """Raise that nobody has begun; go on if somebody has, after all."""
        fact = f"the pgtrickle daemon did not begin within {self.begin_within:g} seconds"
        if not owned:
            raise RequestTimeoutError(
                fact,
                hint="Give it more time, in seconds (0: no limit):"
                " PGOPTIONS='-c pg_trickle.request_timeout=3600'.",
            )
        if self._withdraw():
            raise DaemonMissingError(fact, hint="Look at: pgtrickle status.")

    def _look(self) -> Look:
        look = look_at_request(self.session, self.request, self.shown)
        self.shown = look.shown
        for notice in look.news:
            if WAITING in notice:
                self.listeners.waiting(notice.split(WAITING, 1)[1])
        return look

    def _tell(self) -> None:
        """Tell who does it, or that nobody has begun; and how far it is, from time to time."""
        now = time.monotonic()
        if self.server is None:
            self.server, _ = find_server(self.session, self.request)
            if self.server is not None:
                self.listeners.tell(f"handed to the daemon {describe_server(self.server)}")
            elif not self.busy_told and now > self.asked_at + _BUSY_SECONDS:
                self.busy_told = True
                self.listeners.tell("waiting for the daemon, which is busy with other requests")
        tell, every = self.listeners.progress, self.listeners.progress_seconds
        if tell is None or self.name is None or now < self.progress_told_at + every:
            return
        self.progress_told_at = now
        if (progress := find_progress(self.session, self.name)) is not None:
            tell(progress)

    def _withdraw(self) -> bool:
        return withdraw_request(self.session, self.request)

    def _outcome(self, look: Look) -> Any:
        if look.outcome is None and find_server(self.session, self.request)[1] == "CANCELLED":
            raise RequestCancelledError("the request was cancelled", hint="Make it again.")
        return look.outcome


def ask(
    session: Session,
    verb: str,
    arguments: Mapping[str, object],
    *,
    path: str,
    name: QualifiedName | None,
    begin_within: float | None,
    listeners: Listeners,
) -> Asked:
    """Ask for something; raise ST601 if nobody would do it."""
    if not is_served(session):
        raise DaemonMissingError(
            f'no pgtrickle daemon serves the database "{session.info.dbname}"',
            hint="Start one with: pgtrickle run --dsn ...",
        )
    request = submit_request(session, verb, arguments, path)
    return Asked(session, request, name, listeners, begin_within=begin_within)


def describe_server(server: str) -> str:
    """Say where a daemon runs.

    >>> describe_server("db1:4711:9f3c2a10")
    'on db1, pid 4711'
    """
    host, pid, _ = server.rsplit(":", 2)
    return f"on {host}, pid {pid}"


def _error(look: Look) -> TrickleError:
    """Return the error that a request ended with, as who had the work done here would meet it."""
    kind = TrickleError.registry.get(look.code or "", InternalError)
    detail = _SQLSTATE.sub("", look.detail or "")
    return kind(look.message or "", detail=detail, hint=look.hint or "")
