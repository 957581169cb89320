"""The picture that both consoles show, and the rows behind ``pgtrickle top --json``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import psycopg

from pgtrickle.catalog.console.picture import ALL, Picture, PicturePart
from pgtrickle.catalog.console.read import Wanted, take_picture
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.compile import set_search_path
from pgtrickle.service.runtime import Runtime


def show_picture(
    runtime: Runtime,
    parts: Collection[PicturePart] | None = None,
    *,
    ids: Collection[int] | None = None,
    subject: QualifiedName | None = None,
) -> Picture:
    """Return the state of the database at one moment: these parts of it, or all.

    The number of statements depends on the parts alone.  With ``ids``, only these stream tables
    have their latencies read; ``subject`` is the one whose definition and history are wanted.
    """
    looked = (
        frozenset() if subject is None else frozenset({PicturePart.DEFINITION, PicturePart.HISTORY})
    )
    wanted = Wanted(frozenset(ALL | looked if parts is None else parts), ids, subject)
    with runtime.connection() as connection:
        return take_picture(connection, wanted)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What PostgreSQL expects of a query: the rows of its result, and the cost to compute them."""

    rows: int
    cost: float  # in PostgreSQL's units


def estimate_query(runtime: Runtime, query: str) -> Estimate | None:
    """Let PostgreSQL estimate a query that was found to be valid; nothing of it runs.

    It is one statement for the server, whatever it contains, in a transaction that may not write.
    """
    bound = round(runtime.settings.planning_timeout_seconds * 1000)
    with runtime.connection() as connection, connection.transaction(force_rollback=True):
        connection.execute("SET TRANSACTION READ ONLY")
        connection.execute(trusted(f"SET LOCAL statement_timeout = {bound}"))
        set_search_path(connection, runtime.users_path(None))
        try:
            [(found,)] = connection.execute(
                trusted(f"EXPLAIN (FORMAT JSON) {query}"), prepare=True
            ).fetchall()
        except psycopg.Error:
            return None
    plan = found[0]["Plan"]
    return Estimate(plan["Plan Rows"], plan["Total Cost"])
