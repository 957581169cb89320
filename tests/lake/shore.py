"""A stream table with its copy in the lake, and the one check that every test of the sink makes.

PostgreSQL says what the stream table holds, DuckDB what the lake holds: as multisets of rows, each
value in the text in which both print it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
from pgtrickle.bootstrap import Trickle
from pgtrickle.lake.catalog import create_catalog
from pgtrickle.model.report import RefreshReport
from pgtrickle.ports import Engine
from pgtrickle.settings import load_settings
from tests.fixtures.ducklake import lake_client
from tests.fixtures.engines import Borrowed

SOURCE = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v numeric(12,2), s text)",
    "INSERT INTO t SELECT i, i % 5, i * 1.25, 's' || i FROM generate_series(1, 100) AS i",
)
SUMS = "SELECT k, sum(v) AS total, count(*) AS n, max(id) AS last FROM t GROUP BY k"
COPY = "SELECT k, v, s FROM t"  # without its key: equal rows are possible


@dataclass(slots=True)
class Shore:
    """Where PostgreSQL and the lake meet."""

    trickle: Trickle
    connection: Connection[TupleRow]
    client: duckdb.DuckDBPyConnection
    path: Path

    def run(self, *statements: str) -> None:
        """Run statements in PostgreSQL, each in a transaction of its own."""
        for statement in statements:
            self.connection.execute(statement.encode())

    def create(self, name: str, query: str, mode: str = "DIFFERENTIAL") -> RefreshReport | None:
        """Create a stream table with a copy, and check it."""
        report = self.trickle.create_stream_table(name, query, refresh_mode=mode, sink="ducklake")
        self.check(name)
        return report

    def window(self, name: str, *statements: str) -> RefreshReport:
        """Run statements, refresh a stream table and check its copy."""
        self.run(*statements)
        report = self.trickle.refresh_stream_table(name)
        self.check(name)
        return report

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Ask DuckDB."""
        return self.client.execute(query).fetchall()

    def tell(self, query: str) -> list[tuple[Any, ...]]:
        """Ask PostgreSQL."""
        return self.connection.execute(query.encode()).fetchall()

    def check(self, name: str) -> None:
        """Compare a stream table with its copy."""
        assert self.in_lake(name) == Counter(self.tell(f"TABLE {name}"))
        [(counted,)] = self.ask(f"SELECT count(*) FROM {name}")
        assert counted == self.in_lake(name).total()

    def in_lake(self, name: str, version: int | None = None) -> Counter[tuple[Any, ...]]:
        """Return the rows of the copy, now or as of a snapshot."""
        at = "" if version is None else f" AT (VERSION => {version})"
        return Counter(self.ask(f"SELECT * FROM {name}{at}"))

    def files(self) -> list[Path]:
        """Return all files of the lake."""
        return sorted(self.path.rglob("*.parquet"))

    def status(self) -> tuple[str, int, str | None]:
        """Return the status, the attempts and the error of the only sink."""
        [one] = self.trickle.ducklake_sink_status()
        return one.status.value, one.attempt_count, one.last_error


@contextmanager
def open_shore(database: str, engine: Engine, path: Path, **named: Any) -> Iterator[Shore]:
    """Open pgtrickle on a fresh database with an empty lake, and a client of each side."""
    settings = load_settings({}, dsn=database, ducklake_catalog_schema="lake", **named)
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pgtrickle.connect(database, engine=Borrowed(engine), settings=settings) as trickle,
    ):
        create_catalog(connection, "lake", str(path))
        with lake_client(database, "lake") as client:
            yield Shore(trickle, connection, client, path)
