"""The head of every capture function: whether, and how, to capture now.

``pg_trickle.enabled = off`` (for a session, a role or a database) stops the copying of rows.  The
transaction then leaves one row in ``pgt_capture_gaps``, which tells every consumer that its
window is incomplete.  A pause replaces the functions themselves, so that it also holds for open
sessions and writes nothing; the catalog records it.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection, sql
from psycopg.rows import TupleRow


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the capture of a source."""

    paused: bool = False
    sync: bool = False
    delay_ms: int = 0


_GET = """
    SELECT paused_at IS NOT NULL, COALESCE(durability = 'sync', false), delay_ms
      FROM pgtrickle.pgt_change_tracking WHERE source_relid = %(relid)s
"""


def get_options(connection: Connection[TupleRow], relid: int) -> Options:
    """Return the options of a source's capture from the catalog."""
    row = connection.execute(_GET, {"relid": relid}).fetchone()
    return Options() if row is None else Options(*row)


# The text of a capture function while its source is paused.
PAUSED = sql.SQL("BEGIN RETURN NULL; END")

_SWITCH = sql.SQL("""
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF {touched} THEN
            PERFORM pgtrickle.note_gap({relid}::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;""")
_SYNC = sql.SQL("""
    IF pg_catalog.current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
    END IF;""")
_DELAY = sql.SQL("""
    PERFORM pg_catalog.pg_sleep({seconds});""")


def prelude(relid: int, options: Options, touched: sql.Composable) -> sql.Composed:
    """Write the head of a capture function; ``touched`` tells whether there is a row at all."""
    parts: list[sql.Composable] = [_SWITCH.format(relid=sql.Literal(relid), touched=touched)]
    if options.sync:
        parts.append(_SYNC)
    if options.delay_ms:
        parts.append(_DELAY.format(seconds=sql.Literal(options.delay_ms / 1000)))
    return sql.Composed(parts)
