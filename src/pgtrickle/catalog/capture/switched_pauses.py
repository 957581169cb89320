"""Queries over ``pgt_switched_pauses``: which captures the setting ``cdc_paused`` has paused."""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.text.names import QualifiedName

_LIST = """
    SELECT p.source_relid, n.nspname, c.relname
      FROM pgtrickle.pgt_switched_pauses AS p
      LEFT JOIN pg_catalog.pg_class AS c ON c.oid = p.source_relid
      LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     ORDER BY p.source_relid
"""


def list_switched(connection: Connection[TupleRow]) -> dict[int, QualifiedName | None]:
    """Return the sources that the setting has paused; without a name, those that are gone."""
    rows = connection.execute(_LIST).fetchall()
    return {
        relid: None if name is None else QualifiedName(schema, name) for relid, schema, name in rows
    }


# Sources that are captured, or whose writers maintain stream tables, and that nobody has paused.
_LIST_UNPAUSED = """
    SELECT n.nspname, c.relname
      FROM (SELECT t.source_relid FROM pgtrickle.pgt_change_tracking AS t
             WHERE t.paused_at IS NULL
             UNION
            SELECT i.source_relid FROM pgtrickle.pgt_immediate_sources AS i
              JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
             WHERE i.source_relid <> s.pgt_relid
               AND i.source_relid NOT IN (
                       SELECT p.source_relid FROM pgtrickle.pgt_immediate_pauses AS p)) AS one
      JOIN pg_catalog.pg_class AS c ON c.oid = one.source_relid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     ORDER BY one.source_relid
"""


def list_unpaused(connection: Connection[TupleRow]) -> list[QualifiedName]:
    """Return the sources whose changes are captured."""
    return [QualifiedName(*row) for row in connection.execute(_LIST_UNPAUSED)]


_NOTE = """
    INSERT INTO pgtrickle.pgt_switched_pauses (source_relid) VALUES (%(relid)s)
        ON CONFLICT DO NOTHING
"""


def note_switched(connection: Connection[TupleRow], source_relid: int) -> None:
    """Record that the setting has paused a source."""
    connection.execute(_NOTE, {"relid": source_relid})


_FORGET = """
    DELETE FROM pgtrickle.pgt_switched_pauses
     WHERE source_relid = ANY (%(relids)s::pg_catalog.oid[])
"""


def forget_switched(connection: Connection[TupleRow], source_relids: Collection[int]) -> None:
    """Forget that the setting has paused sources: somebody has decided about them."""
    connection.execute(_FORGET, {"relids": sorted(source_relids)})
