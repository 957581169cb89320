"""The corpus as a workload: its queries under AUTO, ten cycles of changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.stream_table import RefreshMode
from tests.workloads.corpus.generator import SIZES, rows_of
from tests.workloads.corpus.queries import read_styles
from tests.workloads.workload import Workload

_HERE = Path(__file__).parent
SCHEMA = _HERE / "schema.sql"


def _load(connection: Connection[TupleRow]) -> None:
    connection.execute(SCHEMA.read_bytes())
    _insert(connection, lambda first, _: range(first))
    connection.execute("ANALYZE")


def _change(connection: Connection[TupleRow], cycle: int) -> None:
    _insert(connection, lambda first, more: range(first + (cycle - 1) * more, first + cycle * more))
    script = (_HERE / "cycle.sql").read_text().replace(":cycle", str(cycle))
    connection.execute(script.encode())


def _insert(connection: Connection[TupleRow], numbers: Callable[[int, int], range]) -> None:
    for table, (first, more) in SIZES.items():
        command = f"COPY {table} FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(command.encode()) as copy:
            for row in rows_of(table, numbers(first, more)):
                copy.write_row(row)


STYLES = read_styles(_HERE / "queries")
CORPUS = Workload(
    "corpus",
    {name: text for queries in STYLES.values() for name, text in queries.items()},
    load=_load,
    change=_change,
    mode=RefreshMode.AUTO,
)
