"""DuckDB answering the query anew over Parquet files of the same tables.

Writing the files is not part of its time: a lake would have them.  So this is how quick the
answer alone can be had, from a copy that someone else keeps up to date.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_postgresql import dbapi as postgres

from benchmarks.tpch.contenders import Timed

_DECIMAL = pa.decimal128(15, 2)
# Without the blanks that fill a char(n), which DuckDB would compare.
_COLUMNS = """
    SELECT string_agg(CASE atttypid WHEN 'bpchar'::regtype
                           THEN format('%1$I::text AS %1$I', attname)
                           ELSE quote_ident(attname) END, ', ' ORDER BY attnum)
      FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0
"""


class DuckDbParquet:
    """A full recomputation by DuckDB."""

    name = "duckdb"

    def __init__(self, dsn: str, tables: Sequence[str], directory: Path) -> None:
        self._dsn = dsn
        self._tables = tables
        self._directory = directory
        self._connection = duckdb.connect()

    def begin(self) -> None:
        """Write the tables as they are now to Parquet files."""
        with postgres.connect(self._dsn) as connection, connection.cursor() as cursor:
            for table in self._tables:
                cursor.execute(_COLUMNS.format(table=table))
                [(listed,)] = cursor.fetchall()
                cursor.execute(f"SELECT {listed} FROM {table}")
                path = self._directory / f"{table}.parquet"
                _write(cursor.fetch_record_batch(), path)
                self._connection.execute(
                    f"CREATE OR REPLACE VIEW {table} AS SELECT * FROM read_parquet('{path}')"
                )

    def prepare(self, query: str, sql: str) -> Timed:  # noqa: ARG002 - the protocol's
        """Nothing is kept between two answers."""
        return Timed(0)

    def refresh(self, query: str, sql: str) -> Timed:
        """Answer the query into a table of DuckDB's own."""
        began = time.perf_counter()
        self._connection.execute(f"CREATE OR REPLACE TABLE answer_{query} AS {sql}")
        return Timed((time.perf_counter() - began) * 1000)


def _write(batches: pa.RecordBatchReader, path: Path) -> None:
    """Write a table as it arrives, a batch at a time: it may be larger than the memory."""
    schema = pa.schema([(field.name, _plain_type(field.type)) for field in batches.schema])
    with pq.ParquetWriter(path, schema) as writer:
        for batch in batches:
            columns = [_plain(column) for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def _plain_type(found: pa.DataType) -> pa.DataType:
    return _DECIMAL if isinstance(found, pa.BaseExtensionType) else found


def _plain(column: pa.Array) -> pa.Array:
    """Turn the driver's numerics, which arrive as text of their own type, into decimals."""
    if isinstance(column.type, pa.BaseExtensionType):
        return column.cast(column.type.storage_type).cast(_DECIMAL)
    return column
