"""Sources whose writers leave IMMEDIATE stream tables alone until somebody resumes."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.errors import CapturePausedError
from pgtrickle.immediate.install import mark_not_ready
from pgtrickle.model.text.names import QualifiedName

# Not the stream tables themselves, whose shape is on record beside that of their sources.
_LIST_FOLLOWED = """
    SELECT DISTINCT i.source_relid, n.nspname, c.relname
      FROM pgtrickle.pgt_immediate_sources AS i
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
      JOIN pg_catalog.pg_class AS c ON c.oid = i.source_relid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE i.source_relid <> s.pgt_relid
     ORDER BY 1
"""
_LIST_READERS = """
    SELECT s.pgt_id, n.nspname, c.relname
      FROM pgtrickle.pgt_immediate_sources AS i
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
      JOIN pg_catalog.pg_class AS c ON c.oid = s.pgt_relid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE i.source_relid = %(relid)s AND i.source_relid <> s.pgt_relid
     ORDER BY s.pgt_id
"""
_PAUSE = """
    INSERT INTO pgtrickle.pgt_immediate_pauses (source_relid) VALUES (%(relid)s)
        ON CONFLICT DO NOTHING
"""
_RESUME = "DELETE FROM pgtrickle.pgt_immediate_pauses WHERE source_relid = %(relid)s"
# A pause waits until the stream table is on record, or the other way round.
_LOCK = "LOCK TABLE pgtrickle.pgt_immediate_pauses IN SHARE MODE"
_FIND_PAUSED = """
    SELECT source_relid FROM pgtrickle.pgt_immediate_pauses
     WHERE source_relid = ANY (%(relids)s::pg_catalog.oid[])
     UNION ALL
    SELECT source_relid FROM pgtrickle.pgt_change_tracking
     WHERE source_relid = ANY (%(relids)s::pg_catalog.oid[]) AND paused_at IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Followed:
    """A source whose writers maintain stream tables."""

    source_relid: int
    source: QualifiedName


def list_immediate_sources(connection: Connection) -> list[Followed]:
    """Return the sources whose writers maintain stream tables, in the order of oids."""
    rows = connection.execute(_LIST_FOLLOWED).fetchall()
    return [Followed(relid, QualifiedName(schema, name)) for relid, schema, name in rows]


def pause_immediate(connection: Connection, followed: Followed) -> bool:
    """Let writers of a source follow no more; waits for those that do.  False if it was so."""
    values = {"relid": followed.source_relid}
    if not connection.execute(_PAUSE, values).rowcount:
        return False
    why = f'the capture of "{followed.source}" is paused'
    for number, schema, name in connection.execute(_LIST_READERS, values).fetchall():
        mark_not_ready(connection, number, QualifiedName(schema, name), why)
    return True


def resume_immediate(connection: Connection, followed: Followed) -> bool:
    """Let the next refresh of each stream table end the pause; return whether there was one."""
    return bool(connection.execute(_RESUME, {"relid": followed.source_relid}).rowcount)


def lock_pauses(connection: Connection) -> None:
    """Let nobody pause a source until the commit."""
    connection.execute(_LOCK)


def check_pauses(connection: Connection, sources: dict[int, QualifiedName]) -> None:
    """Refuse a new stream table over a source whose capture is paused."""
    rows = connection.execute(_FIND_PAUSED, {"relids": sorted(sources)}).fetchall()
    for (relid,) in rows:
        raise CapturePausedError(
            f'the capture of "{sources[relid]}" is paused',
            hint="Resume it with: pgtrickle cdc resume.",
        )
