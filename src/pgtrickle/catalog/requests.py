"""Queries over ``pgt_requests``: what sessions ask for, and what came of it.

Functions for those who ask come first, those of servers after them.

A request that nobody wants any more is one that was cancelled, or whose caller has not looked for
the answer for a while; requests that nobody waits for (``seen_at`` NULL) are wanted until done.
Callers write neither here nor anything that a server would have to wait for: their signs of life
stand in ``pgt_request_signs``, which servers read and never update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from pgtrickle.errors import RequestLostError, RequestQuotaError, TrickleError

_LONGEST_ERROR = 10_000  # characters of each part: whoever asked may have sent a megabyte
_KEPT_PER_CALLER = 1_000
_SWEPT_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Request:
    """A request of one session."""

    id: int
    verb: str
    arguments: str  # JSON, not yet read: nobody has looked at it
    caller: str | None  # as the role is called now; None if it is gone
    caller_oid: int
    schemas: tuple[str, ...]  # where names without a schema are looked for, in this order


_IS_SERVED = "SELECT pgtrickle.is_served()"


def is_served(connection: Connection[TupleRow]) -> bool:
    """Tell whether a daemon executes requests."""
    [(served,)] = connection.execute(_IS_SERVED).fetchall()
    return bool(served)


# The row takes the path down, by which the names in the arguments are looked up.
_SET_PATH = "SELECT pg_catalog.set_config('search_path', %(path)s, true)"
_SUBMIT = """
    INSERT INTO pgtrickle.pgt_requests (verb, arguments, seen_at)
    VALUES (%(verb)s, %(arguments)s, pg_catalog.clock_timestamp())
    RETURNING request_id
"""


def submit_request(
    connection: Connection[TupleRow], verb: str, arguments: Mapping[str, object], path: str
) -> int:
    """Ask for something, and begin to wait for it."""
    with connection.transaction():
        connection.execute(_SET_PATH, {"path": path})
        values = {"verb": verb, "arguments": Jsonb(dict(arguments))}
        [(request,)] = connection.execute(_SUBMIT, values).fetchall()
    return int(request)


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a request, as its caller sees it."""

    ended: bool
    shown: int  # how many notices were shown by now
    news: list[str]  # the notices since the last look
    outcome: Any  # what JSON can hold
    nap: float  # seconds until the next look
    code: str | None  # of the error that it ended with
    message: str | None
    detail: str | None
    hint: str | None


# Work has no limit; how long it waits for others is told to the daemon.
_WITHOUT_LIMIT = "SET LOCAL pg_trickle.request_timeout = 0"
_LOOK = """
    SELECT f.ended, f.shown, f.news, f.outcome, f.nap, f.code, f.message, f.detail, f.hint
      FROM pgtrickle.follow_request(%(request)s, %(shown)s, %(stop)s) AS f
"""


def look_at_request(
    connection: Connection[TupleRow], request: int, shown: int, *, stop: bool = False
) -> Look:
    """Look for the answer, which is a sign of life; with ``stop`` take the request back."""
    values = {"request": request, "shown": shown, "stop": stop}
    with connection.transaction(), connection.cursor(row_factory=class_row(Look)) as cursor:
        cursor.execute(_WITHOUT_LIMIT)
        [look] = cursor.execute(_LOOK, values).fetchall()
    return look


_FIND_SERVER = """
    SELECT r.server, r.status FROM pgtrickle.pgt_requests AS r WHERE r.request_id = %(request)s
"""


def find_server(connection: Connection[TupleRow], request: int) -> tuple[str | None, str | None]:
    """Return who executes a request, None if nobody has begun it, and its status."""
    row = connection.execute(_FIND_SERVER, {"request": request}).fetchone()
    return (None, None) if row is None else (row[0], row[1])


_WITHDRAW = """
    UPDATE pgtrickle.pgt_requests
       SET status = 'CANCELLED', ended_at = pg_catalog.clock_timestamp()
     WHERE request_id = %(request)s AND status = 'QUEUED'
"""


def withdraw_request(connection: Connection[TupleRow], request: int) -> bool:
    """End a request unless it was begun; tell whether nobody began it, nor ever will.

    Callers who do not own the catalog may not.
    """
    connection.execute(_WITHDRAW, {"request": request})
    return find_server(connection, request) == (None, "CANCELLED")


_CANCEL = "SELECT pgtrickle.cancel_request(%(request)s)"


def cancel_request(connection: Connection[TupleRow], request: int) -> bool:
    """Cancel one of the caller's own requests; return False if there is no open one."""
    [(cancelled,)] = connection.execute(_CANCEL, {"request": request}).fetchall()
    return bool(cancelled)


_UNWANTED = """
    (s.cancelled_at IS NOT NULL OR COALESCE(s.seen_at, r.seen_at)
         OPERATOR(pg_catalog.<) pg_catalog.clock_timestamp() - interval '10 seconds')
"""
_REQUESTS = """
    pgtrickle.pgt_requests AS r LEFT JOIN pgtrickle.pgt_request_signs AS s USING (request_id)
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


# The first request of each caller: of those who can act as the server, then of all others in turn.
_CLAIM = f"""
    WITH myself AS (
        SELECT a.oid FROM pg_catalog.pg_roles AS a WHERE a.rolname = current_user
    ), waiting AS (
        SELECT r.caller_oid, pg_catalog.min(r.request_id) AS request_id
          FROM {_REQUESTS}
         WHERE r.status = 'QUEUED' AND {_UNWANTED} IS NOT TRUE
         GROUP BY r.caller_oid
    ), turns AS (
        SELECT w.request_id, pg_catalog.pg_has_role(w.caller_oid, m.oid, 'USAGE') AS ours,
               (SELECT pg_catalog.max(l.started_at) FROM pgtrickle.pgt_requests AS l
                 WHERE l.caller_oid = w.caller_oid) AS served_at
          FROM waiting AS w, myself AS m
    ), others AS (
        SELECT pg_catalog.count(*) AS number
          FROM pgtrickle.pgt_requests AS b, myself AS m
         WHERE b.status = 'RUNNING' AND b.server = %(server)s
           AND NOT pg_catalog.pg_has_role(b.caller_oid, m.oid, 'USAGE')
    )
    UPDATE pgtrickle.pgt_requests
       SET status = 'RUNNING', server = %(server)s, started_at = pg_catalog.clock_timestamp()
     WHERE request_id = (SELECT q.request_id
                           FROM turns AS t JOIN pgtrickle.pgt_requests AS q USING (request_id)
                          CROSS JOIN others AS o
                          WHERE q.status = 'QUEUED' AND (t.ours OR o.number < %(share)s)
                          ORDER BY t.ours DESC, t.served_at NULLS FIRST, q.request_id
                          LIMIT 1 FOR UPDATE OF q SKIP LOCKED)
    RETURNING request_id, verb, arguments::pg_catalog.text,
              (SELECT a.rolname FROM pg_catalog.pg_roles AS a WHERE a.oid = caller_oid),
              caller_oid, schemas
"""


def claim_request(connection: Connection[TupleRow], server: str, *, share: int) -> Request | None:
    """Take the next request that somebody still wants; two servers never take the same.

    Of those who cannot act as the server, it executes ``share`` at a time: its owner finds it free.
    """
    row = connection.execute(_CLAIM, {"server": server, "share": share}).fetchone()
    if row is None:
        return None
    request, verb, arguments, caller, caller_oid, schemas = row
    return Request(request, verb, arguments, caller, caller_oid, tuple(schemas))


_FIND_WORK = """
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_requests WHERE status = 'QUEUED'),
           EXISTS (SELECT FROM pgtrickle.pgt_subscriptions WHERE pending_refresh_id IS NOT NULL)
"""


def find_work(connection: Connection[TupleRow]) -> tuple[bool, bool]:
    """Tell whether there may be a request to claim, and a notice that was held back."""
    [(requests, notices)] = connection.execute(_FIND_WORK).fetchall()
    return requests, notices


_FIND_UNWANTED = f"""
    SELECT r.request_id FROM {_REQUESTS}
     WHERE r.request_id = ANY (%(ids)s) AND r.status = 'RUNNING' AND {_UNWANTED}
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
    """Send the caller a message while it waits."""
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
    values = {"code": error.code, "message": str(error), "detail": detail, "hint": error.hint}
    return {key: _storable(value) for key, value in values.items()}


def _storable(text: str) -> str:
    """Return a text that PostgreSQL holds: no NUL, no half of a surrogate pair, not too long."""
    if len(text) > _LONGEST_ERROR:
        text = text[:_LONGEST_ERROR] + " ..."
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


_SWEEP = """
    WITH dead AS (
        DELETE FROM pgtrickle.pgt_request_servers
         WHERE beat_at < pg_catalog.clock_timestamp() - interval '1 minute'
    )
    UPDATE pgtrickle.pgt_requests AS r
       SET status = 'FAILED', error = %(lost)s, ended_at = pg_catalog.clock_timestamp()
     WHERE status = 'RUNNING'
       AND CASE WHEN r.server = %(server)s THEN r.request_id <> ALL (%(running)s::int8[])
                ELSE NOT EXISTS (
                    SELECT FROM pgtrickle.pgt_request_servers AS s
                     WHERE s.server = r.server
                       AND s.beat_at > pg_catalog.clock_timestamp() - interval '10 seconds')
                END
"""
_SWEEP_UNWANTED = f"""
    UPDATE pgtrickle.pgt_requests
       SET status = 'CANCELLED', ended_at = pg_catalog.clock_timestamp()
     WHERE status = 'QUEUED'
       AND request_id IN (SELECT r.request_id FROM {_REQUESTS}
                           WHERE r.status = 'QUEUED' AND {_UNWANTED})
"""
# Sessions of one role do not see what others have not committed yet, and may exceed the quota.
_SWEEP_EXCESS = """
    UPDATE pgtrickle.pgt_requests
       SET status = 'FAILED', error = %(excess)s, ended_at = pg_catalog.clock_timestamp()
     WHERE request_id IN (
               SELECT n.request_id
                 FROM (SELECT q.request_id, q.caller_oid, pg_catalog.row_number() OVER (
                                  PARTITION BY q.caller_oid ORDER BY q.request_id) AS place
                         FROM pgtrickle.pgt_requests AS q WHERE q.status = 'QUEUED') AS n,
                      pg_catalog.pg_roles AS m
                WHERE n.place > %(quota)s AND m.rolname = current_user
                  AND NOT pg_catalog.pg_has_role(n.caller_oid, m.oid, 'USAGE'))
"""
_FORGET = """
    WITH old AS (
        SELECT r.request_id
          FROM (SELECT request_id, ended_at, pg_catalog.row_number() OVER (
                           PARTITION BY caller_oid ORDER BY request_id DESC) AS place
                  FROM pgtrickle.pgt_requests WHERE ended_at IS NOT NULL) AS r
         WHERE r.ended_at < pg_catalog.clock_timestamp() - %(keep)s
            OR r.place > %(kept)s
         LIMIT %(most)s
    ), signs AS (
        -- A caller may hold his own for as long as he likes.
        SELECT s.request_id FROM pgtrickle.pgt_request_signs AS s
         WHERE NOT EXISTS (SELECT FROM pgtrickle.pgt_requests AS r
                            WHERE r.request_id = s.request_id AND r.ended_at IS NULL)
         LIMIT %(most)s FOR UPDATE OF s SKIP LOCKED
    ), gone AS (
        DELETE FROM pgtrickle.pgt_request_signs WHERE request_id IN (SELECT request_id FROM signs)
    )
    DELETE FROM pgtrickle.pgt_requests WHERE request_id IN (SELECT request_id FROM old)
"""


def sweep_requests(
    connection: Connection[TupleRow],
    server: str,
    running: Sequence[int],
    *,
    quota: int,
    keep: timedelta,
) -> None:
    """End the requests that nobody wants or executes any more, and forget those of long ago.

    ``running`` are those that ``server`` itself executes, ``quota`` how many of a caller may wait,
    ``keep`` how long one stays after its end.
    """
    lost = RequestLostError(
        "the pgtrickle daemon ended while it executed the request",
        hint="Make the request again; what was half done is undone by itself.",
    )
    excess = RequestQuotaError(
        f"more than {quota} requests of this role were waiting",
        hint="Make it again when some are done.",
    )
    values = {"server": server, "running": list(running)}
    connection.execute(_SWEEP, values | {"lost": Jsonb(describe_error(lost))})
    connection.execute(_SWEEP_UNWANTED)
    connection.execute(_SWEEP_EXCESS, {"excess": Jsonb(describe_error(excess)), "quota": quota})
    connection.execute(_FORGET, {"keep": keep, "kept": _KEPT_PER_CALLER, "most": _SWEPT_AT_ONCE})
