"""Large results: a Spark data sink whose tasks COPY into a staging table side by side.

A task may be run twice, so each row carries the attempt that wrote it and each attempt is one
transaction.  When all tasks are done the driver deletes the rows of attempts that Spark did not
accept and drops the column ``__attempt``.  An attempt that is still alive then, on a lost executor
for instance, can no longer write: its COPY names a column that is gone.

The staging table is the caller's: it has the result's columns and ``__attempt text``, nothing else
writes to it.  Imported by functions only, since the base classes cost the import of pyspark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pyarrow as pa
from psycopg import sql
from pyspark import TaskContext  # noqa: TID253 - see the module's docstring
from pyspark.sql.datasource import (  # noqa: TID253 - see the module's docstring
    DataSource,
    DataSourceArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType  # noqa: TID253 - see the module's docstring

from pgtrickle.spark.connection_file import read_connection
from pgtrickle.spark.copy_csv import arrow_to_csv
from pgtrickle.spark.pg_errors import error_for
from pgtrickle.spark.worker_errors import tagged

FORMAT = "pgtrickle_staging"
ATTEMPT = "__attempt"


class StagingSink(DataSource):
    """The table named by the options ``schema`` and ``table``."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002, FBT001 - Spark's signature
        """Return the writer of the result's columns."""
        schema_name, table = json.loads(self.options["table"])
        return StagingWriter(schema_name, table, schema.names, self.options["connection_file"])


@dataclass
class Attempt(WriterCommitMessage):
    """What one accepted attempt of a task wrote."""

    attempt: str
    rows: int


class StagingWriter(DataSourceArrowWriter):
    """Writes each partition in one transaction and settles which ones count."""

    def __init__(self, schema: str, table: str, columns: list[str], connection_file: str) -> None:
        self._table = (schema, table)
        self._columns = columns
        self._connection_file = connection_file

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """COPY one partition and commit it."""
        context = TaskContext.get()
        assert context is not None  # noqa: S101 - Spark calls this inside a task
        attempt = f"{context.partitionId()}.{context.taskAttemptId()}"
        columns = sql.SQL(", ").join(map(sql.Identifier, [*self._columns, ATTEMPT]))
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
            sql.Identifier(*self._table), columns
        )
        rows = 0
        with tagged(), _connected(self._connection_file) as connection:
            cursor = connection.cursor()
            with cursor.copy(statement) as copy:
                for batch in iterator:
                    rows += batch.num_rows
                    copy.write(arrow_to_csv(_marked(batch, attempt)))
        return Attempt(attempt, rows)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Keep the rows of the accepted attempts and close the table to all others."""
        attempts = [message.attempt for message in messages if isinstance(message, Attempt)]
        table = sql.Identifier(*self._table)
        with tagged(), _connected(self._connection_file) as connection:
            # Waits for an attempt that is writing at this moment; its rows are then deleted too.
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table))
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE {} <> ALL (%s)").format(
                    table, sql.Identifier(ATTEMPT)
                ),
                [attempts],
            )
            connection.execute(
                sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(table, sql.Identifier(ATTEMPT))
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the table to the caller, who drops it with the failed refresh."""


def _marked(batch: pa.RecordBatch, attempt: str) -> pa.RecordBatch:
    marks = pa.array([attempt], pa.string()).take(pa.array([0] * batch.num_rows, pa.int32()))
    return pa.RecordBatch.from_arrays(
        [*batch.columns, marks], names=[*(f"c{i}" for i in range(batch.num_columns)), ATTEMPT]
    )


@contextmanager
def _connected(connection_file: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Yield a connection whose transaction commits when the block ends well."""
    try:
        with psycopg.connect(read_connection(connection_file)) as connection:
            yield connection
    except psycopg.Error as error:
        raise error_for(error.sqlstate, str(error), doing="stage rows") from error
