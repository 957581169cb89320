"""Queries over ``pgt_requests``: what sessions ask for, and what came of it.

A request that nobody wants any more is one that was cancelled, or whose caller has not looked for
the answer for a while; requests that nobody waits for (``seen_at`` NULL) are wanted until done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.errors import RequestLostError, TrickleError


@dataclass(frozen=True, slots=True)
class Request:
    """What one session asks for."""

    id: int
    verb: str
    arguments: dict[str, Any]
    caller: str
    schemas: tuple[str, ...]  # where names without a schema are looked for, in this order


_UNWANTED = """
    (cancelled_at IS NOT NULL OR seen_at < pg_catalog.clock_timestamp() - interval '10 seconds')
"""

_BEAT = """
    INSERT INTO pgtrickle.pgt_request_servers (server, beat_at)
    VALUES (%(server)s, pg_catalog.clock_timestamp())
        ON CONFLICT (server) DO UPDATE SET beat_at = excluded.beat_at
"""


def beat(connection: Connection[TupleRow], server: str) -> None:
    """Show a sign of life: callers wait only for a server that does."""
    connection.execute(_BEAT, {"server": server})


_FALL_SILENT = "DELETE FROM pgtrickle.pgt_request_servers WHERE server = %(server)s"


def fall_silent(connection: Connection[TupleRow], server: str) -> None:
    """Tell callers at once that this server executes no requests any more."""
    connection.execute(_FALL_SILENT, {"server": server})


_CLAIM = f"""
    UPDATE pgtrickle.pgt_requests
       SET status = 'RUNNING', server = %(server)s, started_at = pg_catalog.clock_timestamp()
     WHERE request_id = (SELECT request_id FROM pgtrickle.pgt_requests
                          WHERE status = 'QUEUED' AND {_UNWANTED} IS NOT TRUE
                          ORDER BY request_id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING request_id, verb, arguments, caller, schemas
"""


def claim_request(connection: Connection[TupleRow], server: str) -> Request | None:
    """Take the oldest request that somebody still wants; two servers never take the same."""
    row = connection.execute(_CLAIM, {"server": server}).fetchone()
    if row is None:
        return None
    request, verb, arguments, caller, schemas = row
    return Request(request, verb, arguments, caller, tuple(schemas))


_FIND_WORK = """
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_requests WHERE status = 'QUEUED'),
           EXISTS (SELECT FROM pgtrickle.pgt_subscriptions WHERE pending_refresh_id IS NOT NULL)
"""


def find_work(connection: Connection[TupleRow]) -> tuple[bool, bool]:
    """Tell whether there may be a request to claim, and a notice that was held back."""
    [(requests, notices)] = connection.execute(_FIND_WORK).fetchall()
    return requests, notices


_FIND_UNWANTED = f"""
    SELECT request_id FROM pgtrickle.pgt_requests
     WHERE request_id = ANY (%(ids)s) AND status = 'RUNNING' AND {_UNWANTED}
"""


def list_unwanted(connection: Connection[TupleRow], requests: Sequence[int]) -> list[int]:
    """Return those of these running requests whose callers took them back or are gone."""
    rows = connection.execute(_FIND_UNWANTED, {"ids": list(requests)})
    return [request for (request,) in rows]


_NOTE = """
    UPDATE pgtrickle.pgt_requests SET notices = notices || %(notice)s::pg_catalog.text
     WHERE request_id = %(id)s
"""


def add_notice(connection: Connection[TupleRow], request: int, notice: str) -> None:
    """Tell the caller something while he waits."""
    connection.execute(_NOTE, {"id": request, "notice": notice})


_END = """
    UPDATE pgtrickle.pgt_requests
       SET status = %(status)s, ended_at = pg_catalog.clock_timestamp(),
           result = %(result)s, error = %(error)s
     WHERE request_id = %(id)s AND status = 'RUNNING'
"""


def complete_request(connection: Connection[TupleRow], request: int, result: object) -> None:
    """Hand the result over."""
    values = {"id": request, "status": "COMPLETED", "result": Jsonb(result), "error": None}
    connection.execute(_END, values)


def fail_request(
    connection: Connection[TupleRow], request: int, error: TrickleError, *, cancelled: bool = False
) -> None:
    """Hand the error over, for the caller's session to raise."""
    status = "CANCELLED" if cancelled else "FAILED"
    document = Jsonb(describe_error(error))
    connection.execute(_END, {"id": request, "status": status, "result": None, "error": document})


def describe_error(error: TrickleError) -> dict[str, str]:
    """Return an error as ``follow_request`` reads it, with the server's SQLSTATE in the detail.

    >>> describe_error(RequestLostError("gone", hint="Ask again."))
    {'code': 'ST604', 'message': 'gone', 'detail': '', 'hint': 'Ask again.'}
    """
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    behind = f"SQLSTATE {sqlstate}" if sqlstate else ""
    detail = "\n".join(filter(None, (error.detail, behind)))
    # PostgreSQL's text has no NUL characters.
    values = {"code": error.code, "message": str(error), "detail": detail, "hint": error.hint}
    return {key: value.replace("\0", "\ufffd") for key, value in values.items()}


_SWEEP = f"""
    WITH dead AS (
        DELETE FROM pgtrickle.pgt_request_servers
         WHERE beat_at < pg_catalog.clock_timestamp() - interval '1 minute'
    ), old AS (
        DELETE FROM pgtrickle.pgt_requests
         WHERE ended_at < pg_catalog.clock_timestamp() - interval '1 day'
    ), lost AS (
        UPDATE pgtrickle.pgt_requests AS r
           SET status = 'FAILED', error = %(error)s, ended_at = pg_catalog.clock_timestamp()
         WHERE status = 'RUNNING'
           AND CASE WHEN r.server = %(server)s THEN r.request_id <> ALL (%(running)s::int8[])
                    ELSE NOT EXISTS (
                        SELECT FROM pgtrickle.pgt_request_servers AS s
                         WHERE s.server = r.server
                           AND s.beat_at > pg_catalog.clock_timestamp() - interval '10 seconds')
                    END
    )
    UPDATE pgtrickle.pgt_requests
       SET status = 'CANCELLED', ended_at = pg_catalog.clock_timestamp()
     WHERE status = 'QUEUED' AND {_UNWANTED}
"""


def sweep_requests(connection: Connection[TupleRow], server: str, running: Sequence[int]) -> None:
    """End the requests that nobody wants or executes any more, and forget those of long ago.

    ``running`` are those that ``server`` itself executes.
    """
    error = RequestLostError(
        "the pgtrickle daemon ended while it executed the request",
        hint="Make the request again; what was half done is undone by itself.",
    )
    values = {"error": Jsonb(describe_error(error)), "server": server, "running": list(running)}
    connection.execute(_SWEEP, values)
