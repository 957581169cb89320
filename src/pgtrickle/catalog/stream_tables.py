"""Queries over ``pgt_stream_tables``: one function per question, each taking an open connection.

Functions named ``get_`` raise when the row is missing, ``find_`` return None, ``list_`` return
a list.  None of them commits: the caller owns the transaction.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.catalog.renamed_tables import find_new_name, follow_renamed_tables
from pgtrickle.errors import LeaseLostError, NameTakenError, StreamTableNotFoundError
from pgtrickle.model.capture.cdc_mode import CdcMode
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.stream_table import RefreshMode, Status, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted

STREAM_TABLE_COLUMNS = """
    s.pgt_id, s.pgt_relid, s.pgt_schema, s.pgt_name, s.defining_query, s.original_query,
    s.schedule, s.refresh_mode, s.effective_refresh_mode, s.downgrade_reason, s.status,
    s.is_populated, s.needs_reinit, s.frontier, s.data_timestamp, s.last_refresh_at,
    s.consecutive_errors, s.last_error_message, s.owner_role, s.max_delta_fraction,
    s.requested_cdc_mode, s.tier, s.scc_id, s.suspended_by, s.last_error_at, s.engine,
    s.bound -> 'pinned', s.has_outbox
"""


def read_stream_table(row: TupleRow) -> StreamTable:
    """Build the value from a row of ``STREAM_TABLE_COLUMNS``."""
    return StreamTable(
        id=row[0],
        relid=row[1],
        name=QualifiedName(row[2], row[3]),
        defining_query=row[4],
        original_query=row[5],
        schedule=row[6],
        refresh_mode=RefreshMode(row[7]),
        effective_refresh_mode=RefreshMode(row[8]),
        downgrade_reason=row[9],
        status=Status(row[10]),
        populated=row[11],
        needs_reinit=row[12],
        frontier=None if row[13] is None else Frontier.from_json(row[13]),
        data_timestamp=row[14],
        last_refresh_at=row[15],
        consecutive_errors=row[16],
        last_error_message=row[17],
        owner=row[18],
        max_delta_fraction=row[19],
        cdc_mode=None if row[20] is None else CdcMode(row[20]),
        tier=Tier(row[21]),
        circle=row[22],
        suspended_by=row[23],
        last_error_at=row[24],
        engine=None if row[25] is None else EngineMode(row[25]),
        pinned=tuple(row[26] or ()),
        has_outbox=row[27],
    )


_INSERT = """
    INSERT INTO pgtrickle.pgt_stream_tables AS s
        (pgt_relid, pgt_schema, pgt_name, defining_query, original_query, query_search_path,
         schedule, refresh_mode, effective_refresh_mode, downgrade_reason, plan,
         max_delta_fraction)
    VALUES
        (%(relid)s, %(schema)s, %(name)s, %(defining_query)s, %(original_query)s,
         %(query_search_path)s, %(schedule)s, %(refresh_mode)s, %(effective_refresh_mode)s,
         %(downgrade_reason)s, %(plan)s, %(max_delta_fraction)s)
    RETURNING
""" + STREAM_TABLE_COLUMNS  # fmt: skip


def insert_stream_table(
    connection: Connection[TupleRow],
    *,
    relid: int,
    name: QualifiedName,
    defining_query: str,
    original_query: str,
    query_search_path: str,
    schedule: str,
    refresh_mode: RefreshMode,
    effective_refresh_mode: RefreshMode,
    downgrade_reason: str | None = None,
    plan: dict[str, Any] | None = None,
    max_delta_fraction: float | None = None,
) -> StreamTable:
    """Record a new stream table, INITIALIZING and without a frontier, owned by the current role."""
    values = {
        "relid": relid,
        "schema": name.schema,
        "name": name.name,
        "defining_query": defining_query,
        "original_query": original_query,
        "query_search_path": query_search_path,
        "schedule": schedule,
        "refresh_mode": refresh_mode.value,
        "effective_refresh_mode": effective_refresh_mode.value,
        "downgrade_reason": downgrade_reason,
        "plan": None if plan is None else Jsonb(plan),
        "max_delta_fraction": max_delta_fraction,
    }
    try:
        return read_stream_table(connection.execute(_INSERT, values).fetchall()[0])
    except psycopg.errors.UniqueViolation as error:
        raise NameTakenError(
            f'the stream table "{name}" already exists',
            hint="Choose another name, or drop it first with: pgtrickle drop.",
        ) from error


_IS_CALLED_OTHERWISE = """
    EXISTS (SELECT FROM pg_catalog.pg_class AS c
              JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
             WHERE c.oid = s.pgt_relid
               AND (n.nspname <> s.pgt_schema OR c.relname <> s.pgt_name))
"""
_FIND_BY_NAME = f"""
    SELECT {STREAM_TABLE_COLUMNS}, {_IS_CALLED_OTHERWISE}
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema = %(schema)s AND s.pgt_name = %(name)s
"""


def find_stream_table(connection: Connection[TupleRow], name: QualifiedName) -> StreamTable | None:
    """Look a stream table up by the name that its table has.

    Renames are taken over first, if there is a sign of one.
    """
    values = {"schema": name.schema, "name": name.name}
    row = connection.execute(_FIND_BY_NAME, values).fetchone()
    if (row is None or row[-1]) and follow_renamed_tables(connection):
        row = connection.execute(_FIND_BY_NAME, values).fetchone()
    return None if row is None else read_stream_table(row)


def get_stream_table(connection: Connection[TupleRow], name: QualifiedName) -> StreamTable:
    """Look a stream table up by its name, or raise ST201."""
    stream_table = find_stream_table(connection, name)
    if stream_table is None:
        raise not_found(connection, name, "List them with: pgtrickle list.")
    return stream_table


def not_found(
    connection: Connection[TupleRow], name: QualifiedName, hint: str
) -> StreamTableNotFoundError:
    """Return the error that no stream table has this name, and which one had it."""
    new = find_new_name(connection, name)
    if new is None:
        return StreamTableNotFoundError(f'the stream table "{name}" does not exist', hint=hint)
    return StreamTableNotFoundError(
        f'the stream table "{name}" does not exist: it was renamed to "{new}"',
        hint=f"Use the name that it has: {new}.",
    )


_FIND_BY_ID = f"""
    SELECT {STREAM_TABLE_COLUMNS}, {_IS_CALLED_OTHERWISE}
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = %(id)s
"""


def find_stream_table_by_id(
    connection: Connection[TupleRow], stream_table_id: int
) -> StreamTable | None:
    """Look a stream table up by its id, whatever it is called by now."""
    row = connection.execute(_FIND_BY_ID, {"id": stream_table_id}).fetchone()
    if row is not None and row[-1] and follow_renamed_tables(connection):
        row = connection.execute(_FIND_BY_ID, {"id": stream_table_id}).fetchone()
    return None if row is None else read_stream_table(row)


def get_stream_table_by_id(connection: Connection[TupleRow], stream_table_id: int) -> StreamTable:
    """Look a stream table up by its id, or raise ST201."""
    found = find_stream_table_by_id(connection, stream_table_id)
    if found is None:
        raise _gone(stream_table_id)
    return found


_FIND_BY_RELID = f"""
    SELECT {STREAM_TABLE_COLUMNS}
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_relid = %(relid)s
"""


def find_stream_table_by_relid(connection: Connection[TupleRow], relid: int) -> StreamTable | None:
    """Look a stream table up by the relation that stores its rows."""
    row = connection.execute(_FIND_BY_RELID, {"relid": relid}).fetchone()
    return None if row is None else read_stream_table(row)


_LIST = f"""
    SELECT {STREAM_TABLE_COLUMNS}
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY s.pgt_schema, s.pgt_name
"""


def list_stream_tables(connection: Connection[TupleRow]) -> list[StreamTable]:
    """Return every stream table, by name; successors (see successors.py) are not listed."""
    return [read_stream_table(row) for row in connection.execute(_LIST)]


_GET_PLAN = """
    SELECT plan FROM pgtrickle.pgt_stream_tables WHERE pgt_id = %(id)s
"""


def find_plan(connection: Connection[TupleRow], stream_table_id: int) -> dict[str, Any] | None:
    """Return the compiled facts stored with a stream table."""
    row = connection.execute(_GET_PLAN, {"id": stream_table_id}).fetchone()
    if row is None:
        raise _gone(stream_table_id)
    plan: dict[str, Any] | None = row[0]
    return plan


_GET_SEARCH_PATH = """
    SELECT query_search_path FROM pgtrickle.pgt_stream_tables WHERE pgt_id = %(id)s
"""


def get_query_search_path(connection: Connection[TupleRow], stream_table_id: int) -> str:
    """Return the ``search_path`` under which the user's query was written."""
    row = connection.execute(_GET_SEARCH_PATH, {"id": stream_table_id}).fetchone()
    if row is None:
        raise _gone(stream_table_id)
    return str(row[0])


_UPDATE_PLAN = """
    UPDATE pgtrickle.pgt_stream_tables
       SET plan = %(plan)s, updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def update_plan(
    connection: Connection[TupleRow], stream_table_id: int, plan: dict[str, Any] | None
) -> None:
    """Replace the compiled facts stored with a stream table."""
    value = None if plan is None else Jsonb(plan)
    _update(connection, _UPDATE_PLAN, stream_table_id, plan=value)


_UPDATE_STATUS = """
    UPDATE pgtrickle.pgt_stream_tables
       SET status = %(status)s, updated_at = pg_catalog.now(),
           suspended_by = NULL,
           consecutive_errors =
               CASE WHEN %(status)s = 'ACTIVE' THEN 0 ELSE consecutive_errors END
     WHERE pgt_id = %(id)s
"""


def update_status(connection: Connection[TupleRow], stream_table_id: int, status: Status) -> None:
    """Move a stream table to another status; becoming ACTIVE forgives its past errors.

    One that somebody suspends stays so until somebody resumes it, whatever errors it had.
    """
    _update(connection, _UPDATE_STATUS, stream_table_id, status=status.value)


_UPDATE_SCHEDULE = """
    UPDATE pgtrickle.pgt_stream_tables
       SET schedule = %(schedule)s, updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def update_schedule(connection: Connection[TupleRow], stream_table_id: int, schedule: str) -> None:
    """Change when a stream table is due."""
    _update(connection, _UPDATE_SCHEDULE, stream_table_id, schedule=schedule)


def describe_stream_table(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Let the comment of its table name schedule and query, unless somebody wrote another.

    Locks the table against VACUUM, ANALYZE and changes of its shape until the commit.
    """
    connection.execute("SELECT pgtrickle.describe_stream_table(%s)", [stream_table_id])


_UPDATE_REFRESH_MODE = """
    UPDATE pgtrickle.pgt_stream_tables
       SET refresh_mode = %(refresh_mode)s,
           effective_refresh_mode = %(effective_refresh_mode)s,
           downgrade_reason = %(downgrade_reason)s,
           updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def update_refresh_mode(
    connection: Connection[TupleRow],
    stream_table_id: int,
    *,
    refresh_mode: RefreshMode,
    effective_refresh_mode: RefreshMode,
    downgrade_reason: str | None,
) -> None:
    """Change how a stream table is maintained, with the reason if it is less than was asked."""
    _update(
        connection,
        _UPDATE_REFRESH_MODE,
        stream_table_id,
        refresh_mode=refresh_mode.value,
        effective_refresh_mode=effective_refresh_mode.value,
        downgrade_reason=downgrade_reason,
    )


_UPDATE_MAX_DELTA_FRACTION = """
    UPDATE pgtrickle.pgt_stream_tables
       SET max_delta_fraction = %(max_delta_fraction)s, updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def update_max_delta_fraction(
    connection: Connection[TupleRow], stream_table_id: int, max_delta_fraction: float | None
) -> None:
    """Give a stream table its own limit of change; None leaves it to the setting."""
    _update(
        connection,
        _UPDATE_MAX_DELTA_FRACTION,
        stream_table_id,
        max_delta_fraction=max_delta_fraction,
    )


_UPDATE_ENGINE = """
    UPDATE pgtrickle.pgt_stream_tables
       SET engine = %(engine)s, updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def update_engine(
    connection: Connection[TupleRow], stream_table_id: int, engine: EngineMode | None
) -> None:
    """Give a stream table its own engine; None leaves it to the setting."""
    word = None if engine is None else engine.value
    _update(connection, _UPDATE_ENGINE, stream_table_id, engine=word)


_UPDATE_NEEDS_REINIT = """
    UPDATE pgtrickle.pgt_stream_tables
       SET needs_reinit = %(needs_reinit)s, updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def update_needs_reinit(
    connection: Connection[TupleRow], stream_table_id: int, *, needs_reinit: bool
) -> None:
    """Say whether the next refresh must rebuild the stream table."""
    _update(connection, _UPDATE_NEEDS_REINIT, stream_table_id, needs_reinit=needs_reinit)


_UPDATE_FRONTIER = """
    UPDATE pgtrickle.pgt_stream_tables
       SET frontier = %(frontier)s,
           data_timestamp = %(data_timestamp)s,
           last_refresh_at = pg_catalog.clock_timestamp(),
           is_populated = true,
           needs_reinit = false,
           -- What somebody has suspended meanwhile stays so; what errors have is over them.
           status = CASE WHEN status = 'SUSPENDED' AND suspended_by IS NULL
                         THEN status ELSE 'ACTIVE' END,
           suspended_by = NULL,
           consecutive_errors = 0,
           last_error_message = NULL,
           -- The refresh for which a fuse was bridged, or one by hand, puts it in again.
           fuse_bridged = fuse_bridged AND NOT %(changed)s,
           fuse_blown_at = CASE WHEN NOT %(changed)s THEN fuse_blown_at END,
           fuse_reason = CASE WHEN NOT %(changed)s THEN fuse_reason END,
           updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
       AND frontier IS NOT DISTINCT FROM %(previous)s
"""


def update_frontier(
    connection: Connection[TupleRow],
    stream_table_id: int,
    frontier: Frontier,
    *,
    previous: Frontier | None,
    data_timestamp: datetime,
    changed: bool = False,
) -> None:
    """Advance a stream table from ``previous`` to ``frontier`` after a refresh that succeeded.

    If its sources ``changed``, the changes have passed its fuse.  Raises ST210 when the stored
    frontier is not ``previous``: someone else has refreshed since.
    """
    values = {
        "id": stream_table_id,
        "frontier": Jsonb(frontier.to_json()),
        "previous": None if previous is None else Jsonb(previous.to_json()),
        "data_timestamp": data_timestamp,
        "changed": changed,
    }
    if connection.execute(_UPDATE_FRONTIER, values).rowcount != 1:
        raise LeaseLostError(
            "the frontier of the stream table moved while it was being refreshed",
            hint="Refresh it again.",
        )


_MOVE_FRONTIER = """
    UPDATE pgtrickle.pgt_stream_tables
       SET frontier = %(frontier)s, data_timestamp = pg_catalog.clock_timestamp(),
           updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def move_frontier(
    connection: Connection[TupleRow], stream_table_id: int, frontier: Frontier
) -> None:
    """Say of which snapshot the contents are, where writers kept them up to date."""
    value = Jsonb(frontier.to_json())
    _update(connection, _MOVE_FRONTIER, stream_table_id, frontier=value)


_UPDATE_TIER = """
    UPDATE pgtrickle.pgt_stream_tables
       SET tier = %(tier)s, updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def update_tier(connection: Connection[TupleRow], stream_table_id: int, tier: Tier) -> None:
    """Put a stream table into a tier."""
    _update(connection, _UPDATE_TIER, stream_table_id, tier=tier.value)


_UPDATE_ERROR = """
    WITH before AS (
        SELECT s.status, s.consecutive_errors + %(counted)s::pg_catalog.int4 AS errors,
               CASE WHEN s.consecutive_errors > 0 AND s.errors_since IS NOT NULL
                    THEN s.errors_since ELSE pg_catalog.clock_timestamp() END AS since
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.pgt_id = %(id)s
           FOR UPDATE
    ), judged AS (
        SELECT errors, since,
               status <> 'SUSPENDED' AND %(suspend_after)s > 0 AND errors >= %(suspend_after)s
                   AND pg_catalog.clock_timestamp() >= since + %(lasting)s AS too_many
          FROM before
    )
    UPDATE pgtrickle.pgt_stream_tables AS s
       SET consecutive_errors = judged.errors,
           errors_since = judged.since,
           last_error_message = %(message)s,
           last_error_at = pg_catalog.clock_timestamp(),
           needs_reinit = s.needs_reinit OR %(starts_anew)s,
           status = CASE WHEN judged.too_many THEN 'SUSPENDED'
                         ELSE COALESCE(%(status)s, s.status) END,
           suspended_by = CASE WHEN judged.too_many THEN %(code)s ELSE s.suspended_by END,
           updated_at = pg_catalog.now()
      FROM judged
     WHERE s.pgt_id = %(id)s
    RETURNING judged.too_many, judged.errors
"""


def update_error(
    connection: Connection[TupleRow],
    stream_table_id: int,
    message: str,
    *,
    code: str = "",
    status: Status | None = None,
    counted: bool = True,
    suspend_after: int = 0,
    lasting: timedelta = timedelta(),
    starts_anew: bool = False,
) -> int | None:
    """Record a refresh that failed and, if given, the status this leads to.

    With ``suspend_after`` so many errors in a row, ``lasting`` for so long, suspend the stream
    table; then their number is returned.  An error that is not ``counted`` is none of them.
    ``starts_anew`` leaves the mark that makes the next refresh rebuild the contents.
    """
    values = {
        "id": stream_table_id,
        "message": message,
        "code": code,
        "status": None if status is None else status.value,
        "counted": int(counted),
        "suspend_after": suspend_after if counted else 0,
        "lasting": lasting,
        "starts_anew": starts_anew,
    }
    row = connection.execute(_UPDATE_ERROR, values).fetchone()
    return int(row[1]) if row is not None and row[0] else None


_DELETE = "DELETE FROM pgtrickle.pgt_stream_tables WHERE pgt_id = %(id)s"


def delete_stream_table(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Forget a stream table with its dependencies, history and lease; its rows stay."""
    _update(connection, _DELETE, stream_table_id)


def _update(
    connection: Connection[TupleRow], statement: str, stream_table_id: int, **values: object
) -> None:
    # Callers pass one of the constants above; psycopg asks for literals, which they are.
    cursor = connection.execute(trusted(statement), {"id": stream_table_id, **values})
    if cursor.rowcount != 1:
        raise _gone(stream_table_id)


def _gone(stream_table_id: int) -> StreamTableNotFoundError:
    return StreamTableNotFoundError(
        f"the stream table with id {stream_table_id} does not exist any more",
        hint="List them with: pgtrickle list.",
    )
