"""Read buffers as a refresh would."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pgtrickle.capture.buffers import buffer_of
from pgtrickle.capture.triggers import Capture, install_capture
from pgtrickle.capture.windows import get_frontier, window_predicate
from pgtrickle.model.frontier import PgSnapshot
from tests.catalog.databases import Database, value

Bag = Counter[tuple[Any, ...]]


def relid_of(connection: Database, table: str) -> int:
    return int(value(connection, "SELECT %s::pg_catalog.regclass::pg_catalog.oid", table))


def capture(connection: Database, table: str, *columns: str) -> Capture:
    """Install the capture of a table in a transaction of its own."""
    with connection.transaction():
        return install_capture(connection, relid_of(connection, table), columns)


def snapshot(connection: Database) -> PgSnapshot:
    return get_frontier(connection).snapshot


def window(connection: Database, captured: Capture, frontier: PgSnapshot) -> Bag:
    """Return the net changes after a frontier, markers (weight 0) left out."""
    return _sum(connection, captured, window_predicate(frontier))


def changes(connection: Database, captured: Capture) -> Bag:
    """Return the net of everything in the buffer."""
    return _sum(connection, captured, "true")


def _sum(connection: Database, captured: Capture, condition: str) -> Bag:
    columns = ", ".join(f'"{name}"' for name in captured.columns)
    bag: Bag = Counter()
    for weight, *row in connection.execute(
        f"SELECT __weight, {columns} FROM {captured.buffer.sql} "
        f"WHERE __weight <> 0 AND {condition}".encode()
    ):
        bag[tuple(row)] += weight
    return Counter({row: weight for row, weight in bag.items() if weight})


def next_window(
    connection: Database, captured: Capture, frontier: PgSnapshot
) -> tuple[Bag, PgSnapshot]:
    """Read a window and the frontier it leads to in one snapshot, as a refresh does."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        after = snapshot(connection)
        return window(connection, captured, frontier), after


def table(connection: Database, captured: Capture) -> Bag:
    """Return the source's captured columns as they are now."""
    columns = ", ".join(f'"{name}"' for name in captured.columns)
    return Counter(
        connection.execute(f"SELECT {columns} FROM {captured.source.sql}".encode()).fetchall()
    )


def count_buffer(connection: Database, captured: Capture) -> int:
    return int(value(connection, f"SELECT count(*) FROM {buffer_of(captured.source_relid).sql}"))
