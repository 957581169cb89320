"""The TPC-H workload: 22 queries over eight tables, ten cycles of changes."""

from __future__ import annotations

from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from tests.workloads.tpch.data import load
from tests.workloads.workload import Workload, read_queries

_HERE = Path(__file__).parent
SCALE = 0.01


def _load(connection: Connection[TupleRow]) -> None:
    connection.execute((_HERE / "schema.sql").read_bytes())
    load(connection, SCALE)
    connection.execute((_HERE / "indexes.sql").read_bytes())


def _change(connection: Connection[TupleRow], cycle: int) -> None:
    script = (_HERE / "cycle.sql").read_text().replace(":cycle", str(cycle))
    connection.execute(script.encode())


TPCH = Workload("tpch", read_queries(_HERE / "queries"), load=_load, change=_change)
