"""Queries over ``pgt_shadow_builds``: one row per stream table, for its latest shadow build.

A shadow is a successor (see ``successors.py``) that belongs to no process: it lives until its build
ends, which is written down here, and the same transaction or a later sweep drops it.
"""

from __future__ import annotations

from datetime import timedelta

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from pgtrickle.errors import TrickleError
from pgtrickle.model.shadows.build import EvolutionStatus, ShadowBuild, ShadowState
from pgtrickle.model.text.names import QualifiedName


def shadow_name(stream_table_id: int) -> QualifiedName:
    """Return the name of the shadow of a stream table.

    >>> str(shadow_name(7))
    'pgtrickle_state.__pgt_shadow_7'
    """
    return QualifiedName("pgtrickle_state", f"__pgt_shadow_{stream_table_id}")


# What is known of an earlier build, which has ended, is forgotten.
_INSERT = """
    INSERT INTO pgtrickle.pgt_shadow_builds AS b
        (pgt_id, shadow_id, shadow_name, query, hold, allow_breaking)
    VALUES (%(id)s, %(shadow)s, %(name)s, %(query)s, %(hold)s, %(breaking)s)
"""


def insert_shadow_build(
    connection: Connection[TupleRow],
    stream_table_id: int,
    shadow_id: int,
    query: str,
    *,
    hold: bool,
    allow_breaking: bool,
) -> None:
    """Record a shadow build that begins."""
    values = {
        "id": stream_table_id,
        "shadow": shadow_id,
        "name": str(shadow_name(stream_table_id)),
        "query": query,
        "hold": hold,
        "breaking": allow_breaking,
    }
    connection.execute(_FORGET, values)
    connection.execute(_INSERT, values)


_FORGET = "DELETE FROM pgtrickle.pgt_shadow_builds WHERE pgt_id = %(id)s AND ended_at IS NOT NULL"

_COLUMNS = """
    b.pgt_id, b.shadow_id, b.shadow_name, b.state, b.hold, b.allow_breaking, b.rounds, b.stalled,
    b.failures, b.lag_changes, b.least_lag, b.last_round_ms, b.last_error, b.last_error_code
"""
_FIND = f"SELECT {_COLUMNS} FROM pgtrickle.pgt_shadow_builds AS b WHERE b.pgt_id = %(id)s"
_LIST_DUE = f"""
    SELECT {_COLUMNS}
      FROM pgtrickle.pgt_shadow_builds AS b
     WHERE b.ended_at IS NULL AND b.next_round_at <= pg_catalog.clock_timestamp()
     ORDER BY b.next_round_at, b.pgt_id
"""


def find_shadow_build(connection: Connection[TupleRow], stream_table_id: int) -> ShadowBuild | None:
    """Return the latest shadow build of a stream table, ended or not."""
    row = connection.execute(_FIND, {"id": stream_table_id}).fetchone()
    return None if row is None else _read(row)


def find_active_build(connection: Connection[TupleRow], stream_table_id: int) -> ShadowBuild | None:
    """Return the shadow build of a stream table that has not ended."""
    found = find_shadow_build(connection, stream_table_id)
    return found if found is not None and found.state.active else None


def list_due_builds(connection: Connection[TupleRow]) -> list[ShadowBuild]:
    """Return the shadow builds whose shadows are to be refreshed now."""
    return [_read(row) for row in connection.execute(_LIST_DUE)]


def _read(row: TupleRow) -> ShadowBuild:
    return ShadowBuild(
        stream_table_id=row[0],
        shadow_id=row[1],
        shadow_name=row[2],
        state=ShadowState(row[3]),
        hold=row[4],
        allow_breaking=row[5],
        rounds=row[6],
        stalled=row[7],
        failures=row[8],
        lag_changes=row[9],
        least_lag=row[10],
        last_round_ms=row[11],
        last_error=row[12],
        last_error_code=row[13],
    )


_LAG = "SELECT pgtrickle.lag_of_shadow(%(shadow)s)"


def count_lag(connection: Connection[TupleRow], shadow_id: int) -> int | None:
    """Count the captured changes that a shadow does not have yet."""
    [(lag,)] = connection.execute(_LAG, {"shadow": shadow_id}).fetchall()
    return None if lag is None else int(lag)


_UPDATE_ROUND = """
    UPDATE pgtrickle.pgt_shadow_builds
       SET state = %(state)s,
           rounds = rounds + 1,
           rows_loaded = rows_loaded + %(rows)s,
           stalled = %(stalled)s,
           failures = 0,
           lag_changes = %(lag)s,
           least_lag = LEAST(least_lag, %(lag)s),
           last_round_ms = %(took)s,
           last_error = NULL,
           last_error_code = NULL,
           next_round_at = pg_catalog.clock_timestamp() + %(pause)s,
           estimated_ready_at = pg_catalog.clock_timestamp() + %(left)s
     WHERE pgt_id = %(id)s AND shadow_id = %(shadow)s AND ended_at IS NULL
"""


def record_round(
    connection: Connection[TupleRow],
    build: ShadowBuild,
    *,
    state: ShadowState,
    rows: int,
    stalled: int,
    lag: int,
    took_ms: float,
    pause: timedelta,
    left: timedelta | None,
) -> None:
    """Record a refresh of a shadow: ``rows`` more, and perhaps ``left`` until it is ready."""
    values = {
        "id": build.stream_table_id,
        "shadow": build.shadow_id,
        "state": state.value,
        "rows": rows,
        "stalled": stalled,
        "lag": lag,
        "took": took_ms,
        "pause": pause,
        "left": left,
    }
    connection.execute(_UPDATE_ROUND, values)


_UPDATE_ROWS = "UPDATE pgtrickle.pgt_shadow_builds SET rows_loaded = %s WHERE shadow_id = %s"


def update_rows_loaded(connection: Connection[TupleRow], shadow_id: int, rows: int) -> None:
    """Record how many rows a shadow has, after it was refreshed for another purpose."""
    connection.execute(_UPDATE_ROWS, [rows, shadow_id])


_UPDATE_FAILURE = """
    UPDATE pgtrickle.pgt_shadow_builds
       SET failures = failures + 1,
           last_error = %(error)s,
           last_error_code = %(code)s,
           next_round_at = pg_catalog.clock_timestamp() + %(pause)s
     WHERE pgt_id = %(id)s AND ended_at IS NULL
"""


def record_failure(
    connection: Connection[TupleRow],
    build: ShadowBuild,
    error: TrickleError,
    pause: timedelta = timedelta(),
) -> None:
    """Record an error after which the build goes on, after a pause."""
    values = {
        "id": build.stream_table_id,
        "code": error.code,
        "error": f"{error.code}: {error}",
        "pause": pause,
    }
    connection.execute(_UPDATE_FAILURE, values)


_END = """
    UPDATE pgtrickle.pgt_shadow_builds
       SET state = %(state)s,
           last_error = COALESCE(%(error)s, last_error),
           last_error_code = COALESCE(%(code)s, last_error_code),
           ended_at = pg_catalog.clock_timestamp()
     WHERE pgt_id = %(id)s AND ended_at IS NULL
"""


def end_build(
    connection: Connection[TupleRow],
    stream_table_id: int,
    state: ShadowState,
    error: TrickleError | None = None,
) -> bool:
    """Record that a build has ended, and how; tell whether it had not before."""
    values = {
        "id": stream_table_id,
        "state": state.value,
        "code": None if error is None else error.code,
        "error": None if error is None else f"{error.code}: {error}",
    }
    return connection.execute(_END, values).rowcount == 1


_STATUS = """
    SELECT stream_table, state, shadow_table_name, rows_loaded, lag_changes, started_at, converged,
           estimated_ready_at, last_error, hold, refreshes, ended_at, query
      FROM pgtrickle.view_evolution_status(%(name)s)
"""


def view_evolution_status(
    connection: Connection[TupleRow], name: QualifiedName
) -> EvolutionStatus | None:
    """Return how far the latest shadow build of a stream table is; None if there was none."""
    with connection.cursor(row_factory=class_row(EvolutionStatus)) as cursor:
        return cursor.execute(_STATUS, {"name": name.sql}).fetchone()
