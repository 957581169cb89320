"""Let PostgreSQL measure a statement before it runs: EXPLAIN (ANALYZE, BUFFERS), then undone.

EXPLAIN discards the rows of a statement, so a statement whose result is needed runs twice: first
here, in a savepoint that is rolled back, then as if nobody had looked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg import Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from pgtrickle.model.insight.rehearsal import ScannedTable, StatementFigures
from pgtrickle.model.text.trusted import trusted
from pgtrickle.session import OwnCursor, Session

_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
_MEASURED = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|MERGE|WITH|CREATE TEMPORARY TABLE \S+ ON COMMIT DROP AS)\b"
)
_MOST_CHARACTERS = 20_000  # of a statement that is kept; lists of keys may be long

Measure = Callable[[Connection[Any], str, Any], None]


def measure(
    connection: Connection[Any], step: str, sql: str, values: Any
) -> StatementFigures | None:
    """Run a statement, undo it, and return its figures; None if it touches no table.

    An error of the statement itself is raised, as it would be without a measurement.
    """
    if not _MEASURED.match(sql):
        return None
    if connection.info.transaction_status is not TransactionStatus.INTRANS:
        return None
    with connection.transaction(force_rollback=True):
        cursor = OwnCursor(connection, row_factory=tuple_row)
        try:
            [(found,)] = cursor.execute(trusted(_EXPLAIN + sql), values).fetchall()
        except (psycopg.errors.SyntaxError, psycopg.errors.WrongObjectType):
            return None  # a statement that cannot be explained
    [document] = found
    plan = document["Plan"]
    tables = tuple(_tables(plan))
    if not tables and "Plans" not in plan:
        return None  # a call or a constant
    return StatementFigures(
        step,
        sql.strip()[:_MOST_CHARACTERS],
        _rows(plan),
        round(float(document.get("Execution Time", 0.0)), 3),
        int(plan.get("Shared Hit Blocks", 0)),
        int(plan.get("Shared Read Blocks", 0)),
        tables,
        plan,
    )


@contextmanager
def measured(connection: Session, measure_it: Measure) -> Iterator[None]:
    """Measure every statement of a connection in a block; COPY passes by."""

    class MeasuredCursor(OwnCursor):
        """Hands each statement over before it runs."""

        def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
            """Measure a statement, and run it."""
            text = query.decode() if isinstance(query, bytes) else query
            if isinstance(text, str):
                measure_it(self.connection, text, params)
            return super().execute(query, params, **options)

    before: type[Cursor[Any]] = connection.cursor_factory
    connection.cursor_factory = MeasuredCursor
    try:
        yield
    finally:
        connection.cursor_factory = before


def _rows(plan: Mapping[str, Any]) -> int:
    """Return the rows that a statement returned or wrote."""
    writes = plan["Node Type"] == "ModifyTable" and not plan.get("Actual Rows")
    if writes and plan.get("Plans"):
        return _rows(plan["Plans"][0])
    return round(float(plan.get("Actual Rows", 0)) * float(plan.get("Actual Loops", 1)))


def _tables(plan: Mapping[str, Any]) -> Iterator[ScannedTable]:
    if "Relation Name" in plan and plan["Node Type"] != "ModifyTable":
        loops = int(plan.get("Actual Loops", 0))
        yield ScannedTable(
            str(plan["Relation Name"]),
            str(plan["Node Type"]),
            plan.get("Index Name") or _bitmap_index(plan),
            round(float(plan.get("Actual Rows", 0)) * loops),
            loops,
            int(plan.get("Shared Hit Blocks", 0)),
            int(plan.get("Shared Read Blocks", 0)),
        )
    for child in plan.get("Plans", ()):
        yield from _tables(child)


def _bitmap_index(plan: Mapping[str, Any]) -> str | None:
    names = (child.get("Index Name") for child in plan.get("Plans", ()))
    return next((str(one) for one in names if one), None)
