"""Stream tables that were renamed or moved: the catalog takes over the names that they have.

What a table is called is PostgreSQL's to say; the catalog knows it by its oid.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.session import Session

_NAMES_KEPT = 10

_LOCK = """
    SELECT FROM pgtrickle.pgt_stream_tables
     WHERE pgt_id IN (SELECT r.pgt_id FROM pgtrickle.list_renamed() AS r)
     ORDER BY pgt_id FOR NO KEY UPDATE
"""
# Two may have changed their names with one another, and no two may have one at a time.
_MAKE_ROOM = """
    UPDATE pgtrickle.pgt_stream_tables AS s
       SET pgt_name = pg_catalog.format('%%s renamed %%s', s.pgt_id, s.pgt_name)
      FROM pg_catalog.unnest(%(ids)s::pg_catalog.int8[]) AS r (pgt_id)
     WHERE s.pgt_id = r.pgt_id
"""
_RENAME = """
    UPDATE pgtrickle.pgt_stream_tables AS s
       SET pgt_schema = %(schema)s, pgt_name = %(name)s, updated_at = pg_catalog.now(),
           former_names = (
               SELECT pg_catalog.jsonb_agg(f.one ORDER BY f.place)
                 FROM pg_catalog.jsonb_array_elements(%(old)s || s.former_names)
                      WITH ORDINALITY AS f (one, place)
                WHERE f.place <= %(kept)s)
     WHERE s.pgt_id = %(id)s
"""
_LIST = """
    SELECT r.pgt_id, r.old_schema, r.old_name, r.new_schema, r.new_name
      FROM pgtrickle.list_renamed() AS r ORDER BY r.pgt_id
"""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A stream table that has another name than before."""

    id: int
    old: QualifiedName
    new: QualifiedName


def list_renamed_tables(connection: Connection[TupleRow]) -> list[Renamed]:
    """Return the stream tables with other names than the catalog knows."""
    return [
        Renamed(number, QualifiedName(old_schema, old_name), QualifiedName(new_schema, new_name))
        for number, old_schema, old_name, new_schema, new_name in connection.execute(_LIST)
    ]


def follow_renamed_tables(connection: Connection[TupleRow]) -> list[Renamed]:
    """Take over the names that stream tables have by now; return which have another.

    Guests, and those who look at a standby, leave that to others.
    """
    if isinstance(connection, Session) and connection.only_looks:
        return []
    if not list_renamed_tables(connection):
        return []
    with connection.transaction():
        connection.execute(_LOCK)
        renamed = list_renamed_tables(connection)  # another process may have been quicker
        connection.execute(_MAKE_ROOM, {"ids": [one.id for one in renamed]})
        for one in renamed:
            values = {
                "id": one.id,
                "schema": one.new.schema,
                "name": one.new.name,
                "old": _as_json(one.old),
                "kept": _NAMES_KEPT,
            }
            connection.execute(_RENAME, values)
    return renamed


_FIND_SUCCESSOR = """
    SELECT s.pgt_schema, s.pgt_name
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.former_names @> %(name)s AND s.pgt_schema <> 'pgtrickle_state'
     ORDER BY s.updated_at DESC LIMIT 1
"""


def find_new_name(connection: Connection[TupleRow], name: QualifiedName) -> QualifiedName | None:
    """Return what a stream table is called that once had this name."""
    row = connection.execute(_FIND_SUCCESSOR, {"name": _as_json(name)}).fetchone()
    return None if row is None else QualifiedName(*row)


def _as_json(name: QualifiedName) -> Jsonb:
    return Jsonb([{"schema": name.schema, "name": name.name}])
