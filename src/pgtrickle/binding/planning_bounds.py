"""Limits for the compilation of a user's text: for PostgreSQL's statements, and our own passes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import QueryTooLargeError
from pgtrickle.model.compile_steps import limited_steps
from pgtrickle.model.text.trusted import trusted
from pgtrickle.settings import Settings


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a compilation may take."""

    planning_seconds: float  # for each statement
    compile_milliseconds: int  # for our own passes, statements included

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        """Return the limits that are set."""
        return cls(settings.planning_timeout_seconds, settings.compile_timeout_ms)


DEFAULT_BOUNDS: Final = Bounds.of(Settings())

# The planner's own defaults, which a role or database may have raised.  Strings are read as
# when a text is measured.
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
def bounded_planning(connection: Connection[TupleRow], bounds: Bounds) -> Iterator[None]:
    """Limit each statement of the block, inside the caller's transaction and until its end.

    Raises ST108 if a statement took too long, and ST112 if the passes of the compiler did.
    """
    seconds = bounds.planning_seconds
    connection.execute(_BOUND, {"milliseconds": round(seconds * 1000)})
    began = time.monotonic()
    try:
        with limited_steps(bounds.compile_milliseconds):
            yield
    except psycopg.errors.QueryCanceled as error:
        if time.monotonic() - began < seconds:
            raise  # it was cancelled for another reason
        raise QueryTooLargeError(
            f"PostgreSQL needs more than {seconds:g} s to plan the query",
            hint="Simplify the query, or allow more with the setting planning_timeout_seconds.",
        ) from error


def explain_query(
    connection: Connection[TupleRow], sql: str, seconds: float = DEFAULT_BOUNDS.planning_seconds
) -> dict[str, Any]:
    """Return PostgreSQL's plan of a user's query, found within ``seconds``.

    One round trip: the limit is set and reset together with the statement.
    """
    bound = f"SET LOCAL statement_timeout = {round(seconds * 1000)}"
    cursor = connection.execute(
        trusted(f"{bound}; EXPLAIN (FORMAT JSON) {sql}; SET LOCAL statement_timeout = DEFAULT")
    )
    cursor.nextset()
    [(document,)] = cursor.fetchall()
    plan: dict[str, Any] = document[0]["Plan"]
    return plan
