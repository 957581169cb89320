"""One inbound pipeline: fetch, and commit messages and place in one transaction of the inbox.

Whatever dies, the place tells what the inbox has: what comes after it is fetched once more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

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
    MessageUnreadableError,
    PlaceLostError,
    TrickleError,
)
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.relay import dead_letters
from pgtrickle.relay.attempts import LOOK_AGAIN, Attempts, usual_state
from pgtrickle.relay.inbound.definitions import InboundDefinition
from pgtrickle.relay.inbound.origins.origin import Arrived, Origin, make_origin
from pgtrickle.relay.inbound.read import Reader, Row, printable, unreadable
from pgtrickle.relay.secrets import resolve
from pgtrickle.service.runtime import translated_errors
from pgtrickle.session import Session

_LONGEST_ID = 1000  # characters of the id of a dead letter
_CONNECT_SECONDS = 10
_QUIET_ONCE = 1.0  # seconds without a message after which such a one has received everything
_PATIENCE_ONCE = 5.0  # the same, if the origin says that there is more
_FULL_PAUSE = 1.0


@dataclass(slots=True)
class InboundPipeline(Attempts[InboundDefinition]):
    """A pipeline while a relay receives it."""

    word: ClassVar[str] = "inbound pipeline"

    def _state_after(self, error: TrickleError, seconds: float) -> tuple[str, float]:
        match error:
            case PlaceLostError():
                return "lost", LOOK_AGAIN
            case MessageUnreadableError() | DeadLettersFullError():
                return "blocked", LOOK_AGAIN
            case InboxAlteredError() | InboxMissingError():
                return "failed", LOOK_AGAIN
            case _:
                return usual_state(error, seconds)

    def _attempt(self) -> None:
        with ExitStack() as stack:
            with translated_errors():
                session = Session.open(self.dsn, connect_timeout=_CONNECT_SECONDS)
            stack.callback(session.close)
            inbox = self._take(session)
            if self._may_go_on():
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
        self._taken(paused=held.paused)
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
