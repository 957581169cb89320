"""The one query that tells whether there is anything to do for a lake."""

from __future__ import annotations

from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow


class Chores(NamedTuple):
    """The maintenance that is due."""

    sources: bool  # attached tables
    sinks: bool
    unsettled: bool  # a sink whose last delivery failed


_FIND = """
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_ducklake_sources),
           EXISTS (SELECT FROM pgtrickle.pgt_ducklake_sinks),
           EXISTS (SELECT FROM pgtrickle.pgt_ducklake_sink_delivery
                    WHERE status <> 'DELIVERED' AND failing_since IS NOT NULL)
"""


def find_chores(connection: Connection[TupleRow]) -> Chores:
    """Tell whether any table is attached, any stream table has a copy, and one of these fails."""
    [row] = connection.execute(_FIND).fetchall()
    return Chores(*row)
