"""Bounds for everything of ours that lets PostgreSQL plan a text of a user."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import QueryTooLargeError

PLANNING_SECONDS: Final = 10.0  # unless the settings say otherwise

# The planner's own defaults, which a role or database may have raised.  Strings are read as the
# measure of a text reads them.
_BOUND = """
    SELECT pg_catalog.set_config('statement_timeout', LEAST(
               NULLIF(EXTRACT(epoch FROM
                   pg_catalog.current_setting('statement_timeout')::pg_catalog.interval), 0) * 1000,
               %(milliseconds)s)::pg_catalog.int4::pg_catalog.text, true),
           pg_catalog.set_config('join_collapse_limit', LEAST(8,
               pg_catalog.current_setting('join_collapse_limit')::pg_catalog.int4)
               ::pg_catalog.text, true),
           pg_catalog.set_config('from_collapse_limit', LEAST(8,
               pg_catalog.current_setting('from_collapse_limit')::pg_catalog.int4)
               ::pg_catalog.text, true),
           pg_catalog.set_config('geqo', 'on', true),
           pg_catalog.set_config('geqo_threshold', LEAST(12,
               pg_catalog.current_setting('geqo_threshold')::pg_catalog.int4)
               ::pg_catalog.text, true),
           pg_catalog.set_config('standard_conforming_strings', 'on', true)
"""


@contextmanager
def bounded_planning(connection: Connection[TupleRow], seconds: float) -> Iterator[None]:
    """Bound each statement of the block, inside the caller's transaction and until its end.

    Raises ST108 if a statement took that long.
    """
    connection.execute(_BOUND, {"milliseconds": round(seconds * 1000)})
    began = time.monotonic()
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        if time.monotonic() - began < seconds:
            raise  # somebody else has cancelled it
        raise QueryTooLargeError(
            f"PostgreSQL needs more than {seconds:g} s to plan the query",
            hint="Simplify the query, or allow more with the setting planning_timeout_seconds.",
        ) from error


def explain_query(
    connection: Connection[TupleRow], sql: str, seconds: float = PLANNING_SECONDS
) -> dict[str, Any]:
    """Return PostgreSQL's plan of a query of a user's making, found within ``seconds``.

    One round trip: the bound goes there and back with the question.
    """
    bound = f"SET LOCAL statement_timeout = {round(seconds * 1000)}"
    cursor = connection.execute(
        f"{bound}; EXPLAIN (FORMAT JSON) {sql}; SET LOCAL statement_timeout = DEFAULT".encode()
    )
    cursor.nextset()
    [(document,)] = cursor.fetchall()
    plan: dict[str, Any] = document[0]["Plan"]
    return plan
