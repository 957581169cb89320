"""One inbound pipeline: fetch, and commit messages and place in one transaction of the inbox.

Whatever dies, the place tells what the inbox has: what comes after it is fetched once more.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import psycopg

from pgtrickle.catalog.inbound.receive import (
    add_letter,
    insert_messages,
    is_full,
    keep_letter,
    list_places,
    list_wanted_letters,
    record_places,
    remove_letter,
)
from pgtrickle.catalog.inbound.states import count, take
from pgtrickle.catalog.inboxes.config import Inbox, get_inbox
from pgtrickle.catalog.relay.room import Letters, count_room
from pgtrickle.errors import (
    DeadLettersFullError,
    InboxAlteredError,
    InboxMissingError,
    InternalError,
    MessageUnreadableError,
    PlaceLostError,
    RelayHeldError,
    Retry,
    TrickleError,
)
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.relay import dead_letters
from pgtrickle.relay.backoff import pause
from pgtrickle.relay.inbound.definitions import InboundDefinition
from pgtrickle.relay.inbound.origins.origin import Arrived, Origin, make_origin
from pgtrickle.relay.inbound.read import Reader, Row, printable, unreadable
from pgtrickle.relay.secrets import resolve
from pgtrickle.service.runtime import translated_errors
from pgtrickle.session import Session

logger = logging.getLogger(__name__)

_LONGEST_ID = 1000  # characters of the id of a dead letter
_LOOK_AGAIN = 5.0  # seconds, while another relay has the pipeline, or somebody must act
_CONNECT_SECONDS = 10
_FINAL = frozenset({"blocked", "lost", "failed", "waiting", "paused"})
_ATTEMPTS_ONCE = 6  # of a pipeline that is to end by itself
_QUIET_ONCE = 1.0  # seconds without a message after which such a one has received everything
_PATIENCE_ONCE = 5.0  # the same, if the origin says that there is more
_FULL_PAUSE = 1.0


@dataclass(slots=True)
class Doing:
    """What a pipeline does, for the relay, which puts it on record."""

    state: str = "starting"
    error: TrickleError | None = None
    retries: int = 0  # since they were put on record
    lag: int | None = None
    held: bool = False


@dataclass(slots=True)
class InboundPipeline:
    """A pipeline while a relay receives it; ``run`` is a thread of its own."""

    dsn: str
    definition: InboundDefinition
    holder: str
    lease_seconds: float = 30
    doing: Doing = field(default_factory=Doing)
    stop: threading.Event = field(default_factory=threading.Event)
    paused: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)  # somebody resumed it
    once: bool = False
    _draw: random.Random = field(default_factory=random.Random)
    _attempts: int = 0  # since something was received

    def run(self) -> None:
        """Receive until it is stopped; failures are repeated, after longer and longer pauses."""
        while not self.stop.is_set():
            try:
                self._attempt()
                if self.once:
                    return
            except TrickleError as error:
                self._failed(error)
            except Exception as error:
                internal = InternalError(f"unexpected {type(error).__name__} in a relay")
                internal.__cause__ = error
                logger.exception("inbound pipeline %s", self.definition.name)
                self._failed(internal)
            if self.once and self._gives_up():
                return

    def _gives_up(self) -> bool:
        return self.doing.state in _FINAL or self._attempts >= _ATTEMPTS_ONCE

    def _failed(self, error: TrickleError) -> None:
        self._attempts += 1
        self.doing.error = error
        self.doing.retries += 1
        seconds = pause(self._attempts, self._draw)
        match error:
            case RelayHeldError():
                self.doing.state, self.doing.held, seconds = "waiting", False, _LOOK_AGAIN
            case PlaceLostError():
                self.doing.state, seconds = "lost", _LOOK_AGAIN
            case MessageUnreadableError() | DeadLettersFullError():
                self.doing.state, seconds = "blocked", _LOOK_AGAIN
            case InboxAlteredError() | InboxMissingError():
                self.doing.state, seconds = "failed", _LOOK_AGAIN
            case _ if error.retry is Retry.NEVER:
                self.doing.state, seconds = "failed", max(seconds, _LOOK_AGAIN)
            case _:
                self.doing.state = "retrying"
        logger.warning("inbound pipeline %s: %s: %s", self.definition.name, error.code, error)
        if not (self.once and self._gives_up()):
            self._rest(seconds)

    def _rest(self, seconds: float) -> None:
        """Wait, but not when it is stopped, or resumed."""
        ends = time.monotonic() + seconds
        while not self.stop.is_set() and (left := ends - time.monotonic()) > 0:
            if self.wake.wait(min(left, 0.1)):
                self.wake.clear()
                return

    def _attempt(self) -> None:
        """Take the pipeline, and receive until something ends it."""
        with ExitStack() as stack:
            with translated_errors():
                session = Session.open(self.dsn, connect_timeout=_CONNECT_SECONDS)
            stack.callback(session.close)
            inbox = self._take(session)
            while self.paused.is_set() and not self.stop.is_set():
                self.doing.state, self.doing.error = "paused", None
                self.stop.wait(0.1)
                if self.once:
                    return
            if not self.stop.is_set():
                options = resolve(self.definition.options, trusted=self.definition.from_file)
                reader = Reader.take(self.definition.name, options)
                origin = make_origin(self.definition, options)
                stack.callback(origin.close)
                self._receive(session, inbox, reader, origin)

    def _take(self, session: Session) -> Inbox:
        with translated_errors(), session.transaction():
            inbox = get_inbox(session, QualifiedName.parse(self.definition.inbox))
            held = take(
                session,
                self.definition.name,
                inbox.inbox_id,
                self.definition.origin,
                self.holder,
                self.lease_seconds,
            )
        if held.paused:
            self.paused.set()
        else:
            self.paused.clear()
        self.doing.held = True
        inbox.check()
        return inbox

    def _receive(self, session: Session, inbox: Inbox, reader: Reader, origin: Origin) -> None:
        name = self.definition.name
        with translated_errors():
            begun = origin.open(list_places(session, name))
            with session.transaction():
                count(session, name, self.holder, new=0, known=0)
                record_places(session, name, begun)
        heard = time.monotonic()
        while not self.stop.is_set() and not self.paused.is_set():
            if self.wake.is_set():  # somebody resumed it: from the place that is on record now
                self.wake.clear()
                return
            self._replay(session, inbox, reader)
            with translated_errors():
                full = is_full(session, inbox.table, self.definition.max_pending)
            if full:
                self.doing.state, self.doing.error = "full", None
                if self.once:
                    return
                self.stop.wait(_FULL_PAUSE)
                continue
            wait = _QUIET_ONCE if self.once else self.definition.poll_ms / 1000
            arrived = origin.fetch(self.definition.max_inflight, wait)
            self.doing.state, self.doing.error = "receiving", None
            if arrived:
                self._keep(session, reader, origin, arrived)
                self._attempts, heard = 0, time.monotonic()
            self.doing.lag = origin.lag()
            quiet = _PATIENCE_ONCE if self.doing.lag else _QUIET_ONCE
            if self.once and time.monotonic() - heard > quiet:
                return

    def _keep(
        self, session: Session, reader: Reader, origin: Origin, arrived: Sequence[Arrived]
    ) -> None:
        """Commit messages, then let the broker forget them.

        Before a dead letter for which there is no room it stops, with all earlier ones committed.
        """
        try:
            self._commit(session, reader, arrived)
        except _NoRoomError as full:
            if earlier := arrived[: full.at]:
                self._keep(session, reader, origin, earlier)
            raise dead_letters.too_many(
                self.definition.name,
                "Let the pipeline read them, then: pgtrickle inbound replay PIPELINE.",
            ) from None
        origin.settle(arrived)

    def _commit(self, session: Session, reader: Reader, arrived: Sequence[Arrived]) -> None:
        """Commit messages with the place of the last of each part."""
        rows: list[tuple[Arrived, Row]] = []
        bad: list[tuple[Arrived, MessageUnreadableError]] = []
        for one in arrived:
            try:
                rows.append((one, reader.read(one)))
            except MessageUnreadableError as error:
                bad.append((one, error))
        places = {one.part: one.place for one in arrived if one.place}
        name = self.definition.name
        with translated_errors(), session.transaction():
            # The table may have been altered, or have another owner, since the last time.
            inbox = get_inbox(session, QualifiedName.parse(self.definition.inbox))
            inbox.check()
            new = _insert(session, inbox, rows, bad)
            if bad and self.definition.on_unreadable == "block":
                raise bad[0][1]
            if bad:
                self._set_aside(session, arrived, bad)
            record_places(session, name, places)
            known = len(arrived) - len(bad) - new
            count(session, name, self.holder, new=new, known=known)

    def _set_aside(
        self,
        session: Session,
        arrived: Sequence[Arrived],
        bad: Sequence[tuple[Arrived, MessageUnreadableError]],
    ) -> None:
        name, most = self.definition.name, dead_letters.MAX_DEAD_LETTERS
        room = count_room(session, Letters.INBOUND, name, most)
        order = {id(one): number for number, one in enumerate(arrived)}
        for one, why in sorted(bad, key=lambda pair: order[id(pair[0])]):
            headers = {printable(header): printable(text) for header, text in one.headers.items()}
            room -= add_letter(session, self._letter(one, why), headers)
            if room < 0:
                raise _NoRoomError(order[id(one)])

    def _letter(self, arrived: Arrived, error: TrickleError) -> dict[str, object]:
        return {
            "pipeline": self.definition.name,
            "message_id": printable(arrived.id[:_LONGEST_ID]),
            "key": arrived.key,
            "value": arrived.value,
            "code": error.code,
            "error": str(error)[:2000],
        }

    def _replay(self, session: Session, inbox: Inbox, reader: Reader) -> None:
        """Read dead letters again that somebody wants read again."""
        with translated_errors():
            letters = list_wanted_letters(session, self.definition.name)
        for letter in letters:
            one = Arrived("", "", letter.message_id, letter.key, letter.value, letter.headers)
            bad: list[tuple[Arrived, MessageUnreadableError]] = []
            with translated_errors(), session.transaction():
                try:
                    new = _insert(session, inbox, [(one, reader.read(one))], bad)
                except MessageUnreadableError as error:
                    bad.append((one, error))
                    new = 0
                if bad:
                    keep_letter(session, letter, str(bad[0][1])[:2000])
                else:
                    remove_letter(session, letter)
                    count(session, self.definition.name, self.holder, new=new, known=1 - new)


class _NoRoomError(Exception):
    """There is no room for the dead letter that a message is to be."""

    def __init__(self, at: int) -> None:
        self.at = at  # its number in the page


def _insert(
    session: Session,
    inbox: Inbox,
    rows: Sequence[tuple[Arrived, Row]],
    bad: list[tuple[Arrived, MessageUnreadableError]],
) -> int:
    """Insert messages; those that PostgreSQL refuses are found by halves."""
    if not rows:
        return 0
    try:
        with session.transaction():
            return insert_messages(session, inbox.table, [row for _, row in rows])
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        if len(rows) == 1:
            told = str(error.diag.message_primary or type(error).__name__)[:500]
            bad.append((rows[0][0], unreadable(rows[0][0], told)))
            return 0
    half = len(rows) // 2
    return _insert(session, inbox, rows[:half], bad) + _insert(session, inbox, rows[half:], bad)
