"""Reports from executors to the driver: the number of rows that each part read or staged.

Spark's accumulators do not exist through Spark Connect, so the counts travel as rows of a table
that the refresh creates and drops.  A part that runs twice is recorded twice and counts once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from pgtrickle.session import FIX_PATH
from pgtrickle.spark.executors.connection_file import read_connection
from pgtrickle.transit.pg_errors import error_for


def report_rows(
    connection: psycopg.Connection[Any], table: tuple[str, str], part: str, rows: int
) -> None:
    """Record the number of rows that a part has read or staged."""
    connection.execute(
        sql.SQL("INSERT INTO {} (part, rows) VALUES (%s, %s)").format(sql.Identifier(*table)),
        [part, rows],
    )


@contextmanager
def connected(connection_file: str, *, doing: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection whose transaction commits when the block succeeds."""
    try:
        with psycopg.connect(read_connection(connection_file)) as connection:
            connection.execute(FIX_PATH)
            yield connection
    except psycopg.Error as error:
        raise error_for(error.sqlstate, str(error), doing=doing) from error
