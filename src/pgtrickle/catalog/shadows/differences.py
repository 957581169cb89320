"""Compare the rows of a stream table with those of its shadow: PostgreSQL does it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.table_snapshot import RowChange
from pgtrickle.model.text.trusted import trusted


@dataclass(frozen=True, slots=True)
class ColumnDifferences:
    """The columns of two tables: those of only one, those of another type, those of both."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    retyped: tuple[str, ...]
    common: tuple[str, ...]


_COMPARE_COLUMNS = """
    SELECT column_name, x.form, y.form
      FROM pgtrickle.list_identities(%(before)s)
           WITH ORDINALITY AS x (column_name, form, keys, shown, n)
      FULL JOIN pgtrickle.list_identities(%(after)s)
           WITH ORDINALITY AS y (column_name, form, keys, shown, n) USING (column_name)
     ORDER BY x.n, y.n
"""


def compare_columns(connection: Connection[TupleRow], before: int, after: int) -> ColumnDifferences:
    """Return how the columns of one table differ from those of another."""
    found = connection.execute(_COMPARE_COLUMNS, {"before": before, "after": after}).fetchall()
    return ColumnDifferences(
        tuple(name for name, old, _ in found if old is None),
        tuple(name for name, _, new in found if new is None),
        tuple(
            f"{name} is {old}, and would be {new}"
            for name, old, new in found
            if old is not None and new is not None and old != new
        ),
        tuple(name for name, old, new in found if old == new),
    )


_COMPARE_ROWS = """
    SELECT change, copies, "row"::pg_catalog.text, total_added, total_removed
      FROM pgtrickle.diff_tables(%(before)s, %(after)s, %(most)s, %(columns)s)
"""


def compare_rows(
    connection: Connection[TupleRow],
    before: int,
    after: int,
    columns: tuple[str, ...],
    max_rows: int,
) -> tuple[tuple[RowChange, ...], int, int]:
    """Return some rows in which two tables differ, and how many were added and removed."""
    values = {"before": before, "after": after, "most": max_rows, "columns": list(columns)}
    found = connection.execute(_COMPARE_ROWS, values).fetchall()
    added, removed = found[0][3:] if found else (0, 0)
    changes = tuple(
        RowChange(change, copies, json.loads(row, parse_float=Decimal))
        for change, copies, row, *_ in found
    )
    return changes, int(added), int(removed)


def count_rows(connection: Connection[TupleRow], table: str) -> int:
    """Count the rows of a table, given by its quoted name."""
    [(number,)] = connection.execute(trusted(f"SELECT count(*) FROM ONLY {table}")).fetchall()
    return int(number)
