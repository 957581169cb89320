"""The one query that tells whether there is anything to do for a lake."""

from __future__ import annotations

from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow


class Chores(NamedTuple):
    """What there is to look after."""

    sources: bool  # attached tables
    sinks: bool


_FIND = """
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_ducklake_sources),
           EXISTS (SELECT FROM pgtrickle.pgt_ducklake_sinks)
"""


def find_chores(connection: Connection[TupleRow]) -> Chores:
    """Tell whether any table is attached, and whether any stream table has a copy."""
    [row] = connection.execute(_FIND).fetchall()
    return Chores(*row)
