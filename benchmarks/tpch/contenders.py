"""The ways to keep an answer up to date that are timed beside each other.

Each has ``prepare``, once for a query, and ``refresh``, timed after every window of changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import sqlglot
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.service.compile import compile_query
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.executors.connection_file import connection_file
from pgtrickle.spark.executors.large_read import CTID_RANGE, LargeRead, page_count_sql
from pgtrickle.transit.carriers import Use, carrier_for
from pgtrickle.transit.copy_csv import arrow_to_csv


@dataclass(slots=True)
class Timed:
    """One refresh: how long it took and what is worth knowing about it."""

    ms: float
    facts: dict[str, Any] = field(default_factory=dict)


class Contender(Protocol):
    """A way to keep the answers of queries up to date."""

    name: str

    def prepare(self, query: str, sql: str) -> Timed | None:
        """Make what holds the answer of a query, and fill it; None if it cannot do the query."""
        ...

    def refresh(self, query: str, sql: str) -> Timed:
        """Bring it up to date."""
        ...


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


@dataclass(slots=True)
class Ours:
    """A stream table, refreshed in the given way."""

    trickle: pgtrickle.Trickle
    name: str = "ours"
    full: bool = False
    mode: str | None = None  # None: as another contender made it

    def prepare(self, query: str, sql: str) -> Timed:
        """Create the stream table, unless an earlier run has left it or another contender."""
        if not any(table.name.name == query for table in self.trickle.list_stream_tables()):
            mode = self.mode or "DIFFERENTIAL"
            return Timed(
                _timed(lambda: self.trickle.create_stream_table(query, sql, refresh_mode=mode))
            )
        if self.mode is not None:
            self.trickle.alter_stream_table(query, refresh_mode=self.mode)
        return Timed(0)

    def refresh(self, query: str, sql: str) -> Timed:  # noqa: ARG002 - the protocol's
        """Refresh the stream table."""
        report = self.trickle.refresh_stream_table(query, full=self.full)
        return Timed(
            report.duration_ms,
            {
                "action": report.action.value,
                "reason": report.reason,
                "predicted_ms": report.predicted_ms,
                "alternative_ms": report.alternative_ms,
                "rows_read": sum(max(read.rows, 0) for read in report.reads),
                "rows_written": report.rows_inserted + report.rows_deleted,
                "timings_ms": {name: round(ms, 1) for name, ms in report.timings_ms.items()},
                "reads": [[r.source, r.kind, r.rows] for r in report.reads],
            },
        )


@dataclass(slots=True)
class View:
    """REFRESH MATERIALIZED VIEW."""

    connection: Connection[TupleRow]
    name: str = "view"

    def prepare(self, query: str, sql: str) -> Timed:
        """Create the view with its contents."""
        create = f"CREATE MATERIALIZED VIEW IF NOT EXISTS view_{query} AS {sql}"
        return Timed(_timed(lambda: self.connection.execute(create.encode())))

    def refresh(self, query: str, sql: str) -> Timed:  # noqa: ARG002 - the protocol's
        """Compute the view anew."""
        statement = f"REFRESH MATERIALIZED VIEW view_{query}"
        return Timed(_timed(lambda: self.connection.execute(statement.encode())))


@dataclass(slots=True)
class PlainSpark:
    """The same query on Spark, over the tables read in parallel, with its answer copied back.

    It reads by the data source of pgtrickle, only the columns that the query names, and writes a
    table in one COPY: what one would write by hand with the quickest reader there is.
    """

    connection: Connection[TupleRow]
    engine: SparkEngine
    dsn: str
    name: str = "spark"

    def prepare(self, query: str, sql: str) -> Timed:
        """Make the table for the answer."""
        create = f"CREATE TABLE IF NOT EXISTS spark_{query} AS SELECT * FROM ({sql}) q LIMIT 0"
        return Timed(_timed(lambda: self.connection.execute(create.encode())))

    def refresh(self, query: str, sql: str) -> Timed:
        """Read, compute, replace the answer."""
        return Timed(_timed(lambda: self._recompute(query, sql)))

    def _recompute(self, query: str, sql: str) -> None:
        from pgtrickle.spark.executors.pg_source import FORMAT  # noqa: PLC0415 - imports pyspark

        session = self.engine.sessions.large()
        session.createDataFrame([], "one int")  # makes it the thread's active session
        compiled = compile_query(self.connection, sql)
        with (
            connection_file(self.dsn) as path,
            self.connection.transaction(),
        ):
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            [(snapshot,)] = self.connection.execute("SELECT pg_export_snapshot()").fetchall()
            for relation in compiled.binding.query.relations.values():
                wanted = compiled.binding.query.reads[relation.relid]
                columns = tuple(
                    (column.name, carrier_for(column.type, Use.COMPARE))
                    for column in relation.columns
                    if column.name in wanted
                )
                listed = ", ".join(
                    f"{carrier.read_sql(quote_identifier(name))} AS {quote_identifier(name)}"
                    for name, carrier in columns
                )
                [(pages,)] = self.connection.execute(
                    page_count_sql(relation.name).encode()
                ).fetchall()
                read = LargeRead(
                    f"SELECT {listed} FROM {relation.name.sql} WHERE {CTID_RANGE}",
                    columns,
                    snapshot,
                    relpages=pages,
                )
                reader = session.read.format(FORMAT).schema(read.schema_ddl)
                frame = reader.options(**read.options(), connection_file=str(path)).load()
                frame.createOrReplaceTempView(relation.name.name)
            [text] = sqlglot.transpile(sql, read="postgres", write="spark")
            rows = session.sql(text).toArrow()
            self.connection.execute(f"TRUNCATE spark_{query}".encode())
            copy = f"COPY spark_{query} FROM STDIN (FORMAT csv)"
            with self.connection.cursor().copy(copy.encode()) as out:
                out.write(arrow_to_csv(rows))
