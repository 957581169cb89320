"""Staging: the engine's result as a temporary table of PostgreSQL's own types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg import Connection

from pgtrickle.model.names import quote_identifier
from pgtrickle.model.sql_type import Column


def staging_table(stage: str) -> str:
    """Name the temporary table that receives a stage's rows.

    >>> staging_table("group_1")
    '"group_1__staged"'
    """
    return quote_identifier(f"{stage}__staged")


def stage_rows(
    connection: Connection, stage: str, columns: Sequence[Column], csv: Iterable[bytes]
) -> None:
    """Create the staging table of a stage and copy its rows, given as CSV, into it."""
    listed = ", ".join(
        f"{quote_identifier(column.name)} {column.type.display}" for column in columns
    )
    table = staging_table(stage)
    connection.execute(f"CREATE TEMPORARY TABLE {table} ({listed}) ON COMMIT DROP".encode())
    names = ", ".join(quote_identifier(column.name) for column in columns)
    statement = f"COPY {table} ({names}) FROM STDIN (FORMAT csv)"
    with connection.cursor().copy(statement.encode()) as copy:
        for chunk in csv:
            copy.write(chunk)
