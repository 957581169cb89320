"""The rows of a stream table at one moment, as Arrow or as a Spark DataFrame.

They are read as a refresh reads its sources: a value is exact, or its type is refused by name. This
process never has to hold a large table as a whole: batches are yielded as they arrive, and for
Spark the executors read ranges of pages themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import Connection

from pgtrickle.binding.sql_types import resolve_types
from pgtrickle.errors import SparkSessionError
from pgtrickle.extras import require
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.insight.status import show_stream_table
from pgtrickle.service.refreshing.snapshot import open_snapshot
from pgtrickle.service.runtime import Runtime
from pgtrickle.spark.executors.connection_file import connection_file
from pgtrickle.spark.executors.large_read import CTID_RANGE, LargeRead, page_count_sql, with_range
from pgtrickle.spark.sessions.users_session import active_session_kept, require_session
from pgtrickle.spark.spark_errors import translated
from pgtrickle.transit.arrow_reader import stream
from pgtrickle.transit.carriers import Carrier, Use, carrier_for
from pgtrickle.transit.conform import conform
from pgtrickle.transit.decimal_size import decimal_size, probe_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LIST_COLUMNS = """
    SELECT a.attname, a.atttypid, a.atttypmod
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum
"""


def read_table(runtime: Runtime, name: QualifiedName) -> pa.Table:
    """Return all rows of a stream table."""
    with _opened(runtime, name) as read:
        return pa.Table.from_batches(_batches(runtime, read), _schema(read))


def read_batches(runtime: Runtime, name: QualifiedName) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream table, all as of one moment, a few megabytes at a time."""
    with _opened(runtime, name) as read:
        yield from _batches(runtime, read)


def read_pandas(runtime: Runtime, name: QualifiedName) -> Any:
    """Return all rows of a stream table as a pandas DataFrame; numerics stay exact decimals."""
    require("pandas")
    return read_table(runtime, name).to_pandas()


def read_spark(
    runtime: Runtime, name: QualifiedName, session: SparkSession | None = None
) -> DataFrame:
    """Return the rows of a stream table as a Spark DataFrame.

    The executors read them at once, under one snapshot, and keep them: the DataFrame holds the
    table at this moment, and its plan contains no connection string.
    """
    from pgtrickle.spark.run_stage import frame_of  # noqa: PLC0415 - imports pyspark

    sessions = getattr(runtime.engine, "sessions", None)
    if session is not None:
        require_session(session)
    elif sessions is None:
        raise SparkSessionError(
            "there is no Spark session to read into", hint="Give one with session=."
        )
    else:
        session = sessions.large()
    with (
        _opened(runtime, name) as read,
        connection_file(_dsn(runtime), sessions and sessions.scratch) as path,
        translated("read a stream table"),
        active_session_kept(session),
    ):
        _register_source(session)
        return frame_of(session, read, str(path)).localCheckpoint(eager=True)


def _register_source(session: SparkSession) -> None:
    """Register the data source of large reads in a session, if it is missing."""
    from pyspark.errors import AnalysisException

    from pgtrickle.spark.executors.pg_source import PostgresSource  # noqa: PLC0415 - imports pyspark

    # Spark looks it up in the thread's active session; creating a DataFrame activates this one.
    session.createDataFrame([], "one int")
    try:
        session.dataSource.register(PostgresSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


@contextmanager
def _opened(runtime: Runtime, name: QualifiedName) -> Iterator[LargeRead]:
    """Describe the read of a whole table, under a snapshot that lasts for the block."""
    stream_table = show_stream_table(runtime, name)
    with open_snapshot(runtime) as snapshot:
        connection = snapshot.connection
        columns = _list_columns(connection, stream_table.relid)
        table = stream_table.name
        carriers = _sized(connection, table, columns)
        cast = ", ".join(
            f"{carrier.read_sql(quoted)} AS {quoted}"
            for quoted, carrier in zip(_quoted(columns), carriers, strict=True)
        )
        [(pages,)] = connection.execute(trusted(page_count_sql(table))).fetchall()
        yield LargeRead(
            f"SELECT {cast} FROM {table.sql} WHERE {CTID_RANGE}",
            tuple((one.name, carrier) for one, carrier in zip(columns, carriers, strict=True)),
            snapshot.name,
            relpages=int(pages),
        )


def _list_columns(connection: Connection, relid: int) -> list[Column]:
    rows = connection.execute(_LIST_COLUMNS, [relid]).fetchall()
    types = resolve_types(connection, [(oid, modifier) for _, oid, modifier in rows])
    return [Column(name, type_) for (name, _, _), type_ in zip(rows, types, strict=True)]


def _sized(connection: Connection, table: QualifiedName, columns: list[Column]) -> list[Carrier]:
    """Return the carrier of each column; numerics without declared digits fit their values."""
    carriers = [carrier_for(one.type, Use.COMPUTE) for one in columns]
    unsized = [n for n, carrier in enumerate(carriers) if carrier.arrow is None]
    if unsized:
        probe = probe_sql([_quoted(columns)[n] for n in unsized], table.sql)
        [found] = connection.execute(trusted(probe)).fetchall()
        for at, n in enumerate(unsized):
            size = decimal_size(*found[3 * at : 3 * at + 3], column=f"{table}.{columns[n].name}")
            carriers[n] = carriers[n].sized(*size)
    return carriers


def _quoted(columns: list[Column]) -> list[str]:
    return [quote_identifier(one.name) for one in columns]


def _batches(runtime: Runtime, read: LargeRead) -> Iterator[pa.RecordBatch]:
    carriers = [carrier for _, carrier in read.columns]
    for batch in stream(_dsn(runtime), read.snapshot, with_range(read.sql, "true")):
        yield from conform(pa.Table.from_batches([batch]), carriers).to_batches()


def _schema(read: LargeRead) -> pa.Schema:
    return pa.schema([(name, carrier.arrow) for name, carrier in read.columns])


def _dsn(runtime: Runtime) -> str:
    return str(runtime.pool.conninfo)
