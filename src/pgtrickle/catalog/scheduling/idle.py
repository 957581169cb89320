"""The one query that passes over stream tables with nothing to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

# The frontier stays where it is.  Nothing lies between it and this moment, so it still cuts the
# next window at the right place, and it holds no buffer back: it sees every row that is there.
_FIND_AND_NOTE = """
    WITH idle AS MATERIALIZED (
        SELECT found.id
          FROM pgtrickle.find_idle(%(ids)s, %(compare_shapes)s) AS found (id)
         -- Not waited for on disk: a crash that forgets a timestamp loses nothing.
         WHERE pg_catalog.set_config('synchronous_commit', 'off', true) IS NOT NULL
           AND found.id NOT IN (SELECT g.stream_table FROM pgtrickle.list_gaps(%(ids)s) AS g)
           -- Rows move as time passes: at a time that is known, or at any.
           AND found.id NOT IN (
               SELECT s.pgt_id FROM pgtrickle.pgt_stream_tables AS s
                WHERE s.pgt_id = ANY (%(ids)s) AND s.frontier OPERATOR(pg_catalog.?) 'time'
                  AND COALESCE(
                      (s.frontier #>> '{time,next_change_at}')::pg_catalog.timestamptz
                      <= COALESCE(%(now)s::pg_catalog.timestamptz,
                                  pg_catalog.statement_timestamp()),
                      true))
    ), outdated AS MATERIALIZED (
        SELECT s.pgt_id
          FROM pgtrickle.pgt_stream_tables AS s JOIN idle ON idle.id = s.pgt_id
         WHERE s.data_timestamp < pg_catalog.statement_timestamp() - %(silence)s
           FOR NO KEY UPDATE OF s SKIP LOCKED
    ), noted AS (
        UPDATE pgtrickle.pgt_stream_tables AS s
           SET data_timestamp = LEAST(
                   pg_catalog.statement_timestamp(), %(as_of)s::pg_catalog.timestamptz),
               last_refresh_at = pg_catalog.statement_timestamp(),
               updated_at = pg_catalog.statement_timestamp()
          FROM outdated
         WHERE s.pgt_id = outdated.pgt_id
    )
    SELECT id FROM idle
"""


def pass_over_idle(
    connection: Connection[TupleRow],
    stream_table_ids: Sequence[int],
    *,
    compare_shapes: Sequence[int],
    silence: timedelta,
    as_of: datetime | None = None,
    now: datetime | None = None,
) -> frozenset[int]:
    """Return which stream tables have nothing to do, and note that they are up to date.

    Of those in ``compare_shapes`` it also asks whether the columns of a source changed; a source
    that is gone or was stored anew and a view with another definition are always noticed.  The
    note moves timestamps that are older than ``silence``; it writes no history.  Where buffers
    are complete only up to an earlier moment, ``as_of`` is that moment.  ``now`` is the current
    time of queries that follow it, if not the server's.
    """
    values = {
        "ids": list(stream_table_ids),
        "compare_shapes": list(compare_shapes),
        "silence": silence,
        "as_of": as_of,
        "now": now,
    }
    return frozenset(row[0] for row in connection.execute(_FIND_AND_NOTE, values))
