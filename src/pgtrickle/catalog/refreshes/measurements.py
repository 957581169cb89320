"""Queries over the refreshes from which the cost model learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.stream_table import Action


@dataclass(frozen=True, slots=True)
class Measurement:
    """A refresh that ran through: what was counted before, and how long it took."""

    refresh_id: int
    action: Action
    actual_ms: float
    cost: dict[str, Any]


# One arm an action: each is answered by the newest entries of the partial index.
_LIST_NEWER = """
    WITH floor AS (
        SELECT measured_since AS since FROM pgtrickle.pgt_stream_tables
         WHERE pgt_id = %(stream_table_id)s
    )
    (SELECT refresh_id, action, actual_ms, cost
       FROM pgtrickle.pgt_refresh_history
      WHERE pgt_id = %(stream_table_id)s AND action = 'DIFFERENTIAL'
        AND refresh_id > GREATEST(%(newer_than)s, (SELECT since FROM floor))
        AND cost IS NOT NULL AND status = 'COMPLETED'
      ORDER BY refresh_id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT refresh_id, action, actual_ms, cost
       FROM pgtrickle.pgt_refresh_history
      WHERE pgt_id = %(stream_table_id)s AND action = 'FULL'
        AND refresh_id > GREATEST(%(newer_than)s, (SELECT since FROM floor))
        AND cost IS NOT NULL AND status = 'COMPLETED'
      ORDER BY refresh_id DESC LIMIT %(limit)s)
"""


def list_measurements(
    connection: Connection[TupleRow], stream_table_id: int, *, newer_than: int, limit: int
) -> list[Measurement]:
    """Return the newest measured refreshes of each action, the oldest first."""
    values = {"stream_table_id": stream_table_id, "newer_than": newer_than, "limit": limit}
    found = [
        Measurement(row[0], Action(row[1]), row[2], row[3])
        for row in connection.execute(_LIST_NEWER, values)
    ]
    return sorted(found, key=lambda one: one.refresh_id)
