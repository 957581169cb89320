"""The deliveries to each sink since the first look, as totals for counters.

By what has been added to the record of deliveries since the look before, so that a look costs what
is new and not all there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from psycopg import Connection

from pgtrickle.catalog.figures.metric_values import (
    DeliveryFigures,
    SinkFigures,
    list_deliveries_since,
)


@dataclass(slots=True)
class SinkTotals:
    """The deliveries to one sink since the first look."""

    deliveries: int = 0
    attempts: int = 0
    failures: int = 0
    rows_written: int = 0
    rows_deleted: int = 0
    bytes_written: int = 0


@dataclass(slots=True)
class SinkCount:
    """Adds up deliveries; what it forgot would be counted again, so it keeps sinks that went."""

    _first_look: datetime | None = None
    _since: dict[int, datetime] = field(default_factory=dict)  # from when a sink is looked at
    _closed: dict[int, int] = field(default_factory=dict)  # its last delivery that is counted
    _attempts: Counter[int] = field(default_factory=Counter)  # counted, by open delivery
    _totals: dict[int, SinkTotals] = field(default_factory=dict)

    def count(self, connection: Connection, sinks: Sequence[SinkFigures]) -> dict[int, SinkTotals]:
        """Add what is new of these sinks, at the first look nothing; return totals by table."""
        first = self._first_look is None
        if self._first_look is None:
            [(self._first_look,)] = connection.execute("SELECT clock_timestamp()").fetchall()
        for sink in sinks:
            self._totals.setdefault(sink.stream_table_id, SinkTotals())
            earliest = min(sink.open_since or self._first_look, self._first_look)
            self._since.setdefault(sink.stream_table_id, earliest)
        wanted = {one.stream_table_id: self._since[one.stream_table_id] for one in sinks}
        for delivery in list_deliveries_since(connection, wanted) if wanted else ():
            if delivery.id > self._closed.get(delivery.stream_table_id, 0):
                self._add(delivery, SinkTotals() if first else None)
        return {id_: replace(self._totals[id_]) for id_ in wanted}

    def _add(self, delivery: DeliveryFigures, apart: SinkTotals | None) -> None:
        totals = apart or self._totals[delivery.stream_table_id]
        counted = self._attempts.pop(delivery.id, 0)
        # Fewer than before: somebody asked for the delivery, and it started anew.
        attempts = delivery.attempts - (counted if counted <= delivery.attempts else 0)
        attempts = max(attempts, int(delivery.delivered))
        totals.attempts += attempts
        totals.failures += attempts - delivery.delivered
        if delivery.delivered:
            totals.deliveries += 1
            totals.rows_written += delivery.rows_written
            totals.rows_deleted += delivery.rows_deleted
            totals.bytes_written += delivery.bytes_written
            self._closed[delivery.stream_table_id] = delivery.id
            self._since[delivery.stream_table_id] = delivery.started_at
        else:
            self._attempts[delivery.id] = delivery.attempts
