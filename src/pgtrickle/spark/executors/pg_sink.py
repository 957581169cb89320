"""Large results: a Spark data sink whose tasks COPY into a staging table in parallel.

A task may be run twice, so each attempt is one transaction, and PostgreSQL marks each row with the
transaction that wrote it.  When all tasks are done and the table holds more rows than the attempts
that Spark accepted, the rows of all others are deleted.  Then the column ``__attempt``, which
is always NULL, is dropped: an attempt that is still alive then, on a lost executor for instance,
can no longer write, because its COPY names a column that is gone.

The staging table is the caller's: it has the result's columns and ``__attempt text``, nothing else
writes to it.  Imported by functions only, since the base classes cost the import of pyspark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import (  # noqa: TID253 - see the module's docstring
    DataSource,
    DataSourceArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType  # noqa: TID253 - see the module's docstring

from pgtrickle.spark.executors.part_report import connected, report_rows
from pgtrickle.spark.executors.worker_errors import tagged
from pgtrickle.transit.copy_csv import arrow_to_csv

FORMAT = "pgtrickle_staging"
ATTEMPT = "__attempt"

# As the rows show it in xmin.
_TRANSACTION = "SELECT pg_catalog.pg_current_xact_id()::xid::text"


class StagingSink(DataSource):
    """The table named by the option ``table``."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002, FBT001 - Spark's signature
        """Return the writer of the result's columns."""
        table = json.loads(self.options["table"])
        report = json.loads(self.options.get("report", "null"))
        return StagingWriter(table, schema.names, self.options["connection_file"], report)


@dataclass
class Attempt(WriterCommitMessage):
    """The rows of one accepted attempt of a task."""

    transaction: str
    rows: int


class StagingWriter(DataSourceArrowWriter):
    """Writes each partition in one transaction and decides which ones count."""

    def __init__(
        self,
        table: tuple[str, str],
        columns: list[str],
        connection_file: str,
        report: tuple[str, str, str] | None,
    ) -> None:
        self._table = table
        self._columns = columns
        self._report = report
        self._connection_file = connection_file

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """COPY one partition and commit it."""
        columns = sql.SQL(", ").join(map(sql.Identifier, [*self._columns, ATTEMPT]))
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
            sql.Identifier(*self._table), columns
        )
        rows = 0
        with tagged(), connected(self._connection_file, doing="stage rows") as connection:
            [(transaction,)] = connection.execute(_TRANSACTION).fetchall()
            cursor = connection.cursor()
            with cursor.copy(statement) as copy:
                for batch in iterator:
                    rows += batch.num_rows
                    copy.write(arrow_to_csv(_marked(batch)))
            if self._report is not None:
                schema, name, view = self._report
                report_rows(connection, (schema, name), f"{view}/{transaction}", rows)
        return Attempt(str(transaction), rows)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Keep the rows of the accepted attempts and close the table to all others."""
        attempts = [message for message in messages if isinstance(message, Attempt)]
        table = sql.Identifier(*self._table)
        with tagged(), connected(self._connection_file, doing="stage rows") as connection:
            # Waits for an attempt that is writing at this moment; its rows are then deleted too.
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table))
            # Counting costs less than comparing each row with every attempt.
            count = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table)).fetchall()
            if count != [(sum(attempt.rows for attempt in attempts),)]:
                connection.execute(
                    sql.SQL("DELETE FROM {} WHERE xmin::text <> ALL (%s)").format(table),
                    [[attempt.transaction for attempt in attempts]],
                )
            connection.execute(
                sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(table, sql.Identifier(ATTEMPT))
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the table to the caller, who drops it with the failed refresh."""


def _marked(batch: pa.RecordBatch) -> pa.RecordBatch:
    marks = pa.nulls(batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays(
        [*batch.columns, marks], names=[*(f"c{i}" for i in range(batch.num_columns)), ATTEMPT]
    )
