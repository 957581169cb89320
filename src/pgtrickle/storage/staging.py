"""Staging: the engine's result as a table of PostgreSQL's own types, before it is merged.

A small result goes into a temporary table of the writer's transaction.  A large one is written by
many processes at once, so its table is an ordinary unlogged one that the refresh drops again.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.model.names import QualifiedName, quote_identifier
from pgtrickle.model.sql_type import Column
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
        f"CREATE TEMPORARY TABLE {table} ({column_definitions(columns)}) ON COMMIT DROP".encode()
    )
    names = ", ".join(quote_identifier(column.name) for column in columns)
    statement = f"COPY {table} ({names}) FROM STDIN (FORMAT csv)"
    with connection.cursor().copy(statement.encode()) as copy:
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
    """Create the table for a large result, in place of one that a crash may have left."""
    table = shared_staging_table(stream_table_id, stage)
    drop_shared_staging(connection, table)
    listed = f"{column_definitions(columns)}, __attempt text"
    connection.execute(f"CREATE UNLOGGED TABLE {table.sql} ({listed})".encode())
    return table


def drop_shared_staging(connection: Connection, table: QualifiedName) -> None:
    """Drop the table of a large result, whether or not it exists."""
    connection.execute(f"DROP TABLE IF EXISTS {table.sql}".encode())
