"""Queries over the fuses of stream tables."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import StatusForbidsError
from pgtrickle.model.scheduling.fuse import Fuse, FuseMode
from pgtrickle.model.text.names import QualifiedName

_GET = """
    SELECT s.fuse, s.fuse_ceiling, s.fuse_sensitivity, s.fuse_bridged
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = %(id)s
"""
# The median forgives a few large ones.
_USUAL = """
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY h.changed_rows), count(*)
      FROM (SELECT changed_rows FROM pgtrickle.pgt_refresh_history
             WHERE pgt_id = %(id)s AND action = 'DIFFERENTIAL' AND status = 'COMPLETED'
             ORDER BY start_time DESC
             LIMIT 50) AS h
     WHERE h.changed_rows IS NOT NULL
"""
_EVIDENCE = 5  # refreshes without which nothing is usual


def get_fuse(connection: Connection[TupleRow], stream_table_id: int) -> Fuse:
    """Return the fuse of a stream table."""
    [(mode, ceiling, sensitivity, bridged)] = connection.execute(
        _GET, {"id": stream_table_id}
    ).fetchall()
    return Fuse(FuseMode(mode), ceiling, sensitivity, bridged)


def find_usual_changes(connection: Connection[TupleRow], stream_table_id: int) -> float | None:
    """Return how many changed rows refreshes found lately; None if there were too few."""
    [(usual, number)] = connection.execute(_USUAL, {"id": stream_table_id}).fetchall()
    return float(usual) if number >= _EVIDENCE else None


_BLOW = """
    UPDATE pgtrickle.pgt_stream_tables
       SET fuse_blown_at = pg_catalog.clock_timestamp(), fuse_reason = %(reason)s,
           updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""
_ALERT = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
               'event', 'fuse_blown', 'name', %(name)s::pg_catalog.text,
               'reason', %(reason)s::pg_catalog.text)::pg_catalog.text)
"""


def blow_fuse(
    connection: Connection[TupleRow], stream_table_id: int, name: QualifiedName, reason: str
) -> None:
    """Let the scheduler leave a stream table alone until someone decides, and send an alert."""
    values = {"id": stream_table_id, "name": str(name), "reason": reason}
    with connection.transaction():
        connection.execute(_BLOW, values)
        connection.execute(_ALERT, values)


_SET = """
    UPDATE pgtrickle.pgt_stream_tables
       SET fuse = %(mode)s, fuse_ceiling = %(ceiling)s, fuse_sensitivity = %(sensitivity)s,
           updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def set_fuse(connection: Connection[TupleRow], stream_table_id: int, fuse: Fuse) -> None:
    """Give a stream table a fuse."""
    values = {
        "id": stream_table_id,
        "mode": fuse.mode.value,
        "ceiling": fuse.ceiling,
        "sensitivity": fuse.sensitivity,
    }
    connection.execute(_SET, values)


_RESET = """
    UPDATE pgtrickle.pgt_stream_tables
       SET fuse_blown_at = NULL, fuse_reason = NULL, fuse_bridged = true,
           needs_reinit = needs_reinit OR %(reinitialize)s,
           updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s AND fuse_blown_at IS NOT NULL
"""


def reset_fuse(
    connection: Connection[TupleRow], stream_table_id: int, *, reinitialize: bool = False
) -> None:
    """Let the next refresh apply what made the fuse blow, or start anew; ST211 if it did not."""
    values = {"id": stream_table_id, "reinitialize": reinitialize}
    if connection.execute(_RESET, values).rowcount == 0:
        raise StatusForbidsError(
            "the fuse of the stream table has not blown", hint="There is nothing to reset."
        )
