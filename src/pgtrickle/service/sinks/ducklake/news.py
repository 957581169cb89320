"""The messages of a daemon about failing sinks: each failed attempt, and the recovery."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from psycopg import Connection

from pgtrickle.catalog.lake.sinks import list_failing_sinks, list_sinks
from pgtrickle.model.lake.sink import FailingSink, SinkNews
from pgtrickle.model.text.names import QualifiedName


@dataclass(slots=True)
class SinkWatch:
    """Remembers which sinks failed at the last look, and keeps what is new until it is told."""

    _failing: dict[QualifiedName, FailingSink] = field(default_factory=dict)
    _untold: list[SinkNews] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether a sink failed at the last look, and its recovery is to be told."""
        return bool(self._failing)

    def look(self, connection: Connection) -> None:
        """Compare the sinks with how they were at the last look."""
        failing = list_failing_sinks(connection)
        self.compare(failing, list_sinks(connection) if self._failing else ())

    def compare(self, failing: Sequence[FailingSink], there: Collection[QualifiedName]) -> None:
        """Take note of the sinks that fail, and which are there at all."""
        before, self._failing = self._failing, {one.stream_table: one for one in failing}
        for name, sink in self._failing.items():
            # One that is being tried tells nothing that was not told.
            if sink.next_attempt_at is None and not sink.lasting:
                continue
            last = before.get(name)
            if last is None or (last.attempts, last.next_attempt_at) != (
                sink.attempts,
                sink.next_attempt_at,
            ):
                self._untold.append(SinkNews(sink))
        self._untold += [
            SinkNews(sink, recovered=True)
            for name, sink in before.items()
            if name not in self._failing and name in there
        ]

    def take(self) -> list[SinkNews]:
        """Return what is new since this was last called."""
        untold, self._untold = self._untold, []
        return untold
