"""The TPC-H workload: 22 queries over eight tables, ten cycles of changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from tests.workloads.tpch.data import TABLES, Progress, load
from tests.workloads.workload import Workload, read_queries

_HERE = Path(__file__).parent
SCALE = 0.01


def load_scale(
    connection: Connection[TupleRow],
    scale: float,
    tables: Sequence[str] = TABLES,
    progress: Progress | None = None,
) -> list[str]:
    """Make all tables, fill those named with the data of a scale factor, index the join columns.

    What an earlier call made or filled is left as it is.  Return the tables that were filled.
    """
    if not _exists(connection, "lineitem"):
        connection.execute((_HERE / "schema.sql").read_bytes())
    missing = [one for one in tables if _is_empty(connection, one)]
    load(connection, scale, missing, progress)
    if not _exists(connection, "lineitem_l_suppkey_idx"):
        connection.execute((_HERE / "indexes.sql").read_bytes())
    return missing


def _exists(connection: Connection[TupleRow], name: str) -> bool:
    [(found,)] = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchall()
    return bool(found)


def _is_empty(connection: Connection[TupleRow], table: str) -> bool:
    statement = f"SELECT NOT EXISTS (SELECT FROM {table})"
    [(empty,)] = connection.execute(statement.encode()).fetchall()
    return bool(empty)


def queries_at(scale: float) -> dict[str, str]:
    """Return the queries by name; one of them depends on the scale factor (Q11's fraction)."""
    queries = read_queries(_HERE / "queries")
    return queries | {"q11": queries["q11"].replace("0.01", f"{0.0001 / scale:.10f}")}


def _load(connection: Connection[TupleRow]) -> None:
    load_scale(connection, SCALE)


def _change(connection: Connection[TupleRow], cycle: int) -> None:
    script = (_HERE / "cycle.sql").read_text().replace(":cycle", str(cycle))
    connection.execute(script.encode())


TPCH = Workload("tpch", read_queries(_HERE / "queries"), load=_load, change=_change)
