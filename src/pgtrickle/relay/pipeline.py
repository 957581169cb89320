"""One pipeline: read, deliver, record the place; and what becomes of it when something fails.

A message counts as delivered when its receiver has said so, and the place is recorded after that.
Whatever dies in between, the messages since the place are delivered once more.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import ClassVar

from pgtrickle.catalog.relay.pages import (
    add_letter,
    keep_letter,
    list_dead_keys,
    list_wanted_letters,
    remove_letter,
)
from pgtrickle.catalog.relay.room import Letters, count_room
from pgtrickle.catalog.relay.states import Held
from pgtrickle.errors import (
    ChangesGoneError,
    DeadLettersFullError,
    MessageRefusedError,
    SinkUnavailableError,
    TrickleError,
)
from pgtrickle.relay import dead_letters
from pgtrickle.relay.attempts import LOOK_AGAIN, Attempts, usual_state
from pgtrickle.relay.definitions import Definition, OnPoison, Start
from pgtrickle.relay.messages import Message, Place
from pgtrickle.relay.sinks.entry import make_sink
from pgtrickle.relay.sinks.sink import Sink
from pgtrickle.relay.source import Page, Source


@dataclass(slots=True)
class Pipeline(Attempts[Definition]):
    """A pipeline while a relay delivers it."""

    word: ClassVar[str] = "pipeline"

    _dead: set[str] = field(default_factory=set)  # keys of which messages were set aside
    _failures: int = 0  # of the message that is refused

    def _state_after(self, error: TrickleError, seconds: float) -> tuple[str, float]:
        match error:
            case ChangesGoneError():
                return "needs_snapshot", LOOK_AGAIN
            case MessageRefusedError() if self._failures >= self.definition.max_failures:
                return "blocked", float("inf")
            case MessageRefusedError():
                return "retrying", seconds
            case DeadLettersFullError():
                return "blocked", LOOK_AGAIN
            case _:
                return usual_state(error, seconds)

    def _woken(self) -> None:
        self._failures = 0

    def _attempt(self) -> None:
        source = Source(self.dsn, self.definition, self.holder, self.lease_seconds)
        with ExitStack() as stack:
            stack.callback(source.close)
            self._taken(paused=source.take().paused)
            if self._may_go_on():
                sink = make_sink(self.definition)
                stack.callback(sink.close)
                self._deliver(source, sink, source.take())

    def _deliver(self, source: Source, sink: Sink, held: Held) -> None:
        at_sink = sink.open(source.stream, source.schema())
        self._dead = list_dead_keys(source.session, self.definition.name)
        place = find_place(held, at_sink)
        if place is None and self.definition.start is not Start.SNAPSHOT:
            place = source.find_start()
            source.advance(place, None, 0)
        if place is None or place.in_contents:
            place = self._deliver_contents(source, sink, place)
        while place is not None and not self.stop.is_set() and not self.paused.is_set():
            self._replay(source, sink)
            page = source.read(place, self.definition.sink_max_inflight)
            self.doing.state, self.doing.error = "streaming", None
            self.doing.caught_up = page is None
            if page is None:
                if self.once:
                    return
                self.stop.wait(self.definition.poll_ms / 1000)
                continue
            self._deliver_page(source, sink, page)
            place = page.then

    def _deliver_contents(self, source: Source, sink: Sink, place: Place | None) -> Place | None:
        self.doing.state, self.doing.error = "snapshot", None
        with source.contents(place, self.definition.sink_max_inflight) as pages:
            for page in pages:
                self._deliver_page(source, sink, page)
                place = page.then
                if self.stop.is_set() or self.paused.is_set():
                    return None if place.in_contents else place
        return place

    def _deliver_page(self, source: Source, sink: Sink, page: Page) -> None:
        left = list(page.messages)
        while True:
            aside = self._first_of_dead_key(left)
            part, left = left[:aside], left[aside:]
            if part:
                left = self._send(source, sink, part) + left
            if not left:
                break
            if left[0].key in self._dead and self.definition.on_poison is OnPoison.DEAD_LETTER_KEY:
                text = "an earlier message of its key was set aside"
                self._set_aside(source, left.pop(0), MessageRefusedError(text))
        source.advance(page.then, None, 0)

    def _first_of_dead_key(self, messages: Sequence[Message]) -> int:
        if not self._dead or self.definition.on_poison is not OnPoison.DEAD_LETTER_KEY:
            return len(messages)
        dead = (number for number, one in enumerate(messages) if one.key in self._dead)
        return next(dead, len(messages))

    def _send(self, source: Source, sink: Sink, messages: list[Message]) -> list[Message]:
        """Deliver messages; return those after one that was set aside."""
        self.doing.in_flight = len(messages)
        try:
            sink.send(messages)
        except MessageRefusedError as refused:
            done = messages[: refused.delivered]
            if done:
                self._record(source, done)
                self._failures = 0
            self._failures += 1
            if self._failures < self.definition.max_failures:
                raise
            if self.definition.on_poison is OnPoison.BLOCK:
                raise
            poison = messages[refused.delivered]
            self._set_aside(source, poison, refused)
            self._failures = 0
            return messages[refused.delivered + 1 :]
        except SinkUnavailableError as error:
            if done := messages[: error.delivered]:  # so that it does not get them again
                self._record(source, done)
                self._attempts = self._failures = 0
            raise
        self.doing.in_flight = 0
        self._attempts = self._failures = 0
        self._record(source, messages)
        return []

    def _record(self, source: Source, done: Sequence[Message]) -> None:
        source.advance(done[-1].place, done[-1], len(done))

    def _set_aside(self, source: Source, message: Message, error: TrickleError) -> None:
        place, name = message.place, self.definition.name
        with source.transaction() as session:
            if not count_room(session, Letters.OUTBOUND, name, dead_letters.MAX_DEAD_LETTERS):
                raise dead_letters.too_many(
                    name, "Let the receiver accept them, then: pgtrickle relay replay PIPELINE."
                )
            values: dict[str, object] = {
                "pipeline": self.definition.name,
                "pgt_id": message.stream.pgt_id,
                "outbox_id": place.outbox_id,
                "in_contents": place.in_contents,
                "row_number": place.row_number,
                "op": message.op.value,
                "key": message.key,
                "before": message.before,
                "after": message.after,
                "schema_version": message.schema.version,
                "data_timestamp": message.data_timestamp,
                "code": error.code,
                "error": str(error),
            }
            add_letter(session, values)
            source.advance_within(session, place, None, 0)
        if message.key is not None:
            self._dead.add(message.key)

    def _replay(self, source: Source, sink: Sink) -> None:
        """Deliver dead letters that somebody wants delivered again."""
        waiting: set[str | None] = set()
        pgt_id = source.stream.pgt_id
        letters = list_wanted_letters(source.session, self.definition.name, pgt_id)
        for letter in letters:
            try:
                _check_free(letter.key, waiting)
                sink.send([source.replayed(letter)])
            except MessageRefusedError as error:
                waiting.add(letter.key)
                keep_letter(source.session, letter, error.code, str(error))
            else:
                remove_letter(source.session, letter)
        if letters:
            self._dead = list_dead_keys(source.session, self.definition.name)


def _check_free(key: str | None, waiting: Set[str | None]) -> None:
    if key is not None and key in waiting:
        raise MessageRefusedError("an earlier message of its key was set aside")


def find_place(held: Held, at_sink: Place | None) -> Place | None:
    """Return where to go on; None: at the beginning.

    A receiver that keeps its own place knows better than the record, which is written after it;
    also if it was restored to an earlier one.  If somebody wants everything again, only the record
    of the last message is left.

    >>> find_place(Held((8, False, 0), (7, False, 3), False, 0), Place(7, False, 3))
    Place(outbox_id=8, in_contents=False, row_number=0)
    >>> find_place(Held((8, False, 0), (7, False, 3), False, 0), Place(6, False, 9))
    Place(outbox_id=6, in_contents=False, row_number=9)
    """
    if held.place is None and held.sent is not None:
        return None
    place = None if held.place is None else Place(*held.place)
    sent = None if held.sent is None else Place(*held.sent)
    if at_sink is None or place is None or sent is None:
        return max((one for one in (place, at_sink) if one is not None), default=None)
    return at_sink if at_sink < sent else max(place, at_sink)
