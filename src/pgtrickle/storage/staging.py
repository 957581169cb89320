"""Staging: the engine's result as a table of PostgreSQL's own types, before it is merged.

A small result goes into a temporary table of the writer's transaction.  A large one is written by
many processes in parallel, so its table is an ordinary unlogged one that the refresh drops again.

The result of an earlier stage is in temporary tables that only the writer sees.  If other
connections must read much of it, it is copied into such an unlogged table, streaming, with
COPY FREEZE: frozen rows are visible under every snapshot, even under the reader's older one.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.copying import copy_between
from pgtrickle.storage.definitions import column_definitions

_SCHEMA = "pgtrickle_state"


def staging_table(stage: str) -> str:
    """Name the temporary table that receives a stage's rows.

    >>> staging_table("group_1")
    '"group_1__staged"'
    """
    return quote_identifier(f"{stage}__staged")


def stage_rows(connection: Connection, stage: str, columns: Sequence[Column], csv: bytes) -> None:
    """Create the staging table of a stage and copy its rows, given as CSV, into it."""
    table = staging_table(stage)
    connection.execute(
        trusted(f"CREATE TEMPORARY TABLE {table} ({column_definitions(columns)}) ON COMMIT DROP")
    )
    names = ", ".join(quote_identifier(column.name) for column in columns)
    statement = f"COPY {table} ({names}) FROM STDIN (FORMAT csv)"
    with connection.cursor().copy(trusted(statement)) as copy:
        copy.write(csv)


def shared_staging_table(stream_table_id: int, stage: str) -> QualifiedName:
    """Name the unlogged table that receives a large result.

    >>> str(shared_staging_table(7, "result"))
    'pgtrickle_state.staged_7_result'
    """
    return QualifiedName(_SCHEMA, f"staged_{stream_table_id}_{stage}")


def create_shared_staging(
    connection: Connection, stream_table_id: int, stage: str, columns: Sequence[Column]
) -> QualifiedName:
    """Create the table for a large result; replace one that a crash may have left."""
    table = shared_staging_table(stream_table_id, stage)
    drop_shared_staging(connection, table)
    listed = f"{column_definitions(columns)}, __attempt text"
    connection.execute(trusted(f"CREATE UNLOGGED TABLE {table.sql} ({listed})"))
    return table


_COLUMNS = """
    SELECT pg_catalog.quote_ident(a.attname), pg_catalog.format_type(a.atttypid, a.atttypmod)
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = pg_catalog.to_regclass(%(table)s) AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum
"""


def share_rows(
    writer: Connection, connection: Connection, source: str, stream_table_id: int, stage: str
) -> QualifiedName:
    """Copy a temporary table of the writer into one that every snapshot sees, and commit it."""
    table = shared_staging_table(stream_table_id, f"{stage}_changes")
    drop_shared_staging(connection, table)
    columns = writer.execute(_COLUMNS, {"table": f"pg_temp.{source}"}).fetchall()
    listed = ", ".join(f"{name} {type_}" for name, type_ in columns)
    created = f"CREATE UNLOGGED TABLE {table.sql} ({listed})"
    copy_between(writer, source, connection, table.sql, created=created)
    connection.execute(trusted(f"ANALYZE {table.sql}"))
    return table


def share_values(
    reader: Connection, connection: Connection, array: str, stream_table_id: int, number: int
) -> QualifiedName:
    """Copy the values of an array, read by ``reader``, into a table that every snapshot sees."""
    table = shared_staging_table(stream_table_id, f"keys_{number}")
    drop_shared_staging(connection, table)
    query = f"SELECT DISTINCT k FROM unnest({array}) AS k"
    created = f"CREATE UNLOGGED TABLE {table.sql} AS {query} WITH NO DATA"
    copy_between(reader, f"({query})", connection, table.sql, created=created)
    connection.execute(trusted(f"ANALYZE {table.sql}"))
    return table


def create_parts_table(connection: Connection, stream_table_id: int) -> QualifiedName:
    """Create the table in which executors record the rows that they have read and staged."""
    table = shared_staging_table(stream_table_id, "parts")
    drop_shared_staging(connection, table)
    connection.execute(trusted(f"CREATE UNLOGGED TABLE {table.sql} (part text, rows bigint)"))
    return table


def clear_parts(connection: Connection, table: QualifiedName) -> None:
    """Delete the reports of the executors of an earlier stage."""
    connection.execute(trusted(f"DELETE FROM {table.sql}"))


def count_parts(connection: Connection, table: QualifiedName) -> dict[str, int]:
    """Return how many rows have been reported under each name."""
    query = (
        "SELECT pg_catalog.split_part(part, '/', 1), sum(rows)::bigint"
        f" FROM (SELECT part, max(rows) AS rows FROM {table.sql} GROUP BY part) AS parts"
        " GROUP BY 1"
    )
    return dict(connection.execute(trusted(query)).fetchall())


def drop_shared_staging(connection: Connection, table: QualifiedName) -> None:
    """Drop a shared table, whether or not it exists."""
    connection.execute(trusted(f"DROP TABLE IF EXISTS {table.sql}"))
