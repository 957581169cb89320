"""The number of rows of a table and a checksum: equal for equal rows in any order.

The checksum adds up the hashes of the texts of the rows, in which values that are equal but look
different differ too.  It decides nothing but whether rows that were copied are what they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from psycopg import Connection

from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted


class Summed(NamedTuple):
    """A table, as far as sums tell."""

    rows: int
    checksum: Decimal
    holds: tuple[bool, ...]  # for each condition, whether no row contradicts it


def sum_up(
    connection: Connection, relation: str, columns: Sequence[str], conditions: Sequence[str] = ()
) -> Summed:
    """Read a relation once; the caller has fixed the settings on which texts depend."""
    row = ", ".join(quote_identifier(name) for name in columns)
    hashed = f'pg_catalog.hashtextextended(ROW({row})::pg_catalog.text COLLATE "C", 0)'
    checks = "".join(
        f", COALESCE(pg_catalog.bool_and(({one}) IS NOT FALSE), true)" for one in conditions
    )
    [(rows, checksum, *holds)] = connection.execute(
        trusted(f"SELECT count(*), COALESCE(pg_catalog.sum({hashed}), 0){checks} FROM {relation}")
    ).fetchall()
    return Summed(rows, checksum, tuple(holds))
