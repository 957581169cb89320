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
from pgtrickle.client.trickle import Trickle
from pgtrickle.lake.format.catalog import create_catalog
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
LAKE_DSN = "PGTRICKLE_TEST_LAKE_DSN"  # the variable that says where a catalog elsewhere is


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
        [one] = self.trickle.lake.ducklake_sink_status()
        return one.status.value, one.attempt_count, one.last_error

    def known(self) -> set[Path]:
        """Return the files of the lake that its catalog knows."""
        names = self.in_catalog(
            "SELECT path FROM lake.ducklake_data_file UNION ALL"
            " SELECT path FROM lake.ducklake_delete_file UNION ALL"
            " SELECT path FROM lake.ducklake_files_scheduled_for_deletion"
        )
        return {path for path in self.files() for (name,) in names if str(path).endswith(name)}

    def in_catalog(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the database of the catalog."""
        return self.tell(query)


@dataclass(slots=True)
class FarShore(Shore):
    """The same, with the catalog in another database."""

    other: Connection[TupleRow]

    def in_catalog(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the database of the catalog."""
        return self.other.execute(query.encode()).fetchall()

    def provenance(self) -> list[tuple[int, int | None]]:
        """Return which snapshot came from which refresh, as PostgreSQL has it on record."""
        return self.tell(
            "SELECT ducklake_snapshot_id, refresh_id FROM pgtrickle.pgt_ducklake_provenance"
            " ORDER BY 1"
        )

    def snapshots(self) -> list[tuple[int, int | None]]:
        """Return the same as the lake tells it; merges have no refresh and are left out."""
        return self.in_catalog(
            "SELECT snapshot_id, (commit_extra_info::json ->> 'refresh_id')::bigint"
            " FROM lake.ducklake_snapshot_changes WHERE author = 'pgtrickle'"
            " AND commit_extra_info::json ->> 'stream_table' IS NOT NULL ORDER BY 1"
        )

    def intents(self) -> int:
        """Return how many commits are in doubt."""
        [(count,)] = self.tell("SELECT count(*) FROM pgtrickle.pgt_ducklake_intents")
        return int(count)


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


@contextmanager
def open_far_shore(
    database: str, other_database: str, engine: Engine, path: Path
) -> Iterator[FarShore]:
    """Open the same, with the catalog in another database, which LAKE_DSN names."""
    settings = load_settings(
        {},
        dsn=database,
        ducklake_catalog_schema="lake",
        ducklake_catalog_dsn=f"${{ENV:{LAKE_DSN}}}",
    )
    with (
        psycopg.connect(database, autocommit=True) as connection,
        psycopg.connect(other_database, autocommit=True) as other,
        pgtrickle.connect(database, engine=Borrowed(engine), settings=settings) as trickle,
    ):
        create_catalog(other, "lake", str(path))
        with lake_client(other_database, "lake") as client:
            yield FarShore(trickle, connection, client, path, other)
