"""The Nexmark workload: queries q0 to q9 over three tables, ten cycles of changes."""

from __future__ import annotations

from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from tests.workloads.nexmark.generator import events
from tests.workloads.workload import Workload, read_queries

_HERE = Path(__file__).parent
LOADED_EVENTS = 20_000
EVENTS_A_CYCLE = 150


def _load(connection: Connection[TupleRow]) -> None:
    connection.execute((_HERE / "schema.sql").read_bytes())
    _insert(connection, range(LOADED_EVENTS))
    connection.execute("ANALYZE")


def _change(connection: Connection[TupleRow], cycle: int) -> None:
    first = LOADED_EVENTS + (cycle - 1) * EVENTS_A_CYCLE
    _insert(connection, range(first, first + EVENTS_A_CYCLE))
    script = (_HERE / "cycle.sql").read_text().replace(":cycle", str(cycle))
    connection.execute(script.encode())


def _insert(connection: Connection[TupleRow], numbers: range) -> None:
    for table, rows in events(numbers).items():
        command = f"COPY {table} FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(command.encode()) as copy:
            for row in rows:
                copy.write_row(row)


NEXMARK = Workload("nexmark", read_queries(_HERE / "queries"), load=_load, change=_change)
