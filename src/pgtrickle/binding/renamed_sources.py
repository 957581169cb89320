"""Rewrite a query after objects that it uses were renamed or moved.

Objects are identified by their oids, which cannot be transferred.  A text with other names is used
only if PostgreSQL binds it to the same objects.  If another object has an old name now, it is
unclear which of the two is meant: that is ST306.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.binding.bind import Binding, bind_again
from pgtrickle.binding.bound_objects import BoundText, check_meaning, get_bound_text
from pgtrickle.binding.pin_answers import pin_answers
from pgtrickle.catalog.stream_tables import describe_stream_table
from pgtrickle.errors import (
    MeaningChangedError,
    PrivilegeError,
    SourceSchemaChangedError,
    TrickleError,
)
from pgtrickle.model.bound_object import RELATION, BoundObject
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.sql.text.rename_objects import Role, rename_in_query

# By oid, in the database of the record; elsewhere the oids belong to other objects.
_LIST_NAMES = """
    SELECT o.class, o.oid, i.identity, o.name <> i.identity AND EXISTS (
               SELECT FROM pg_catalog.pg_class AS c
                 JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                WHERE o.class = 'relation' AND o.direct AND c.oid <> o.oid
                  AND pg_catalog.format('%%I.%%I', n.nspname, c.relname) = o.name)
      FROM pgtrickle.pgt_stream_tables AS s,
           pg_catalog.jsonb_to_recordset(s.bound -> 'objects')
               AS o (class text, oid oid, name text, direct boolean),
           pg_catalog.pg_identify_object(
               CASE o.class WHEN 'relation' THEN 'pg_catalog.pg_class'
                            WHEN 'function' THEN 'pg_catalog.pg_proc'
                            WHEN 'operator' THEN 'pg_catalog.pg_operator'
                            WHEN 'type' THEN 'pg_catalog.pg_type'
                            ELSE 'pg_catalog.pg_collation' END::pg_catalog.regclass,
               o.oid, 0) AS i
     WHERE s.pgt_id = %(id)s AND i.identity <> o.name
       AND (s.frontier IS NULL OR pgtrickle.lies_here(s.frontier))
"""


@dataclass(frozen=True, slots=True)
class _Moved:
    """One object whose name differs from the recorded one."""

    was: BoundObject
    name: str
    taken: bool  # the old name belongs to another relation

    @property
    def words(self) -> str:
        """Describe it."""
        return f"{self.was.label} was renamed to {self.name}"


def list_moved(connection: Connection[TupleRow], stream_table_id: int) -> list[_Moved]:
    """Return the objects of a query whose names differ from the recorded ones."""
    found = connection.execute(_LIST_NAMES, {"id": stream_table_id}).fetchall()
    if not found:
        return []
    before = get_bound_text(connection, stream_table_id).objects or ()
    known = {(one.class_, one.oid): one for one in before}
    return [_Moved(known[class_, oid], name, taken) for class_, oid, name, taken in found]


def follow_renamed_sources(
    connection: Connection[TupleRow], stream_table: StreamTable
) -> BoundText | None:
    """Rewrite a query after its objects were renamed; return the new text, or None.

    It is recorded unless a transaction is open, which may be read-only or roll back.
    Raises ST306 if another relation has the old name, ST302 if the text cannot be rewritten.
    """
    moved = list_moved(connection, stream_table.id)
    if not moved:
        return None
    _refuse_taken(stream_table, moved)
    recorded = get_bound_text(connection, stream_table.id)
    names = {(one.was.class_, one.was.oid): one.name for one in moved}
    before = [
        replace(one, name=names.get((one.class_, one.oid), one.name))
        for one in recorded.objects or ()
    ]
    renames = _read_renames(moved)
    binding = _bind(connection, stream_table, rename_in_query(recorded.sql, renames), moved, before)
    text = BoundText(binding.query.sql, binding.objects, recorded.pinned)
    if connection.info.transaction_status is TransactionStatus.IDLE:
        with connection.transaction():
            # The objects of a view have other names in PostgreSQL's text of it, and so have
            # columns of the state.
            again = any(not one.was.direct and one.was.class_ == RELATION for one in moved)
            _record(connection, stream_table, text, renames, again=again)
    return text


def _refuse_taken(stream_table: StreamTable, moved: Sequence[_Moved]) -> None:
    taken = [one for one in moved if one.taken]
    if taken:
        words = "; ".join(f"{one.words}, and another has its name now" for one in taken)
        raise MeaningChangedError(
            f'the query of "{stream_table.name}" may mean either of two tables: {words}',
            hint="Undo it; or, to read what has the name now: pgtrickle repair"
            f" {stream_table.name}; or give it a query with the name that you mean:"
            f" pgtrickle alter {stream_table.name} --query.",
        )


def _read_renames(moved: Sequence[_Moved]) -> dict[tuple[Role, QualifiedName], QualifiedName]:
    return {
        (Role(one.was.class_), _name_of(one.was.name)): _name_of(one.name)
        for one in moved
        if one.was.direct or one.was.class_ != RELATION
    }


_IDENTITY = re.compile(r'("(?:[^"]|"")+"|[^".(]+)\.("(?:[^"]|"")+"|[^"(]+)')


def _name_of(identity: str) -> QualifiedName:
    """Read the schema and the name of an object from PostgreSQL's identity text.

    >>> _name_of('shop."Daily Sales"'), _name_of("shop.net(numeric, shop.money)")
    (QualifiedName(schema='shop', name='Daily Sales'), QualifiedName(schema='shop', name='net'))
    >>> _name_of("shop.+(integer,integer)").name
    '+'
    """
    match = _IDENTITY.match(identity)
    if match is None:
        return QualifiedName("", identity)
    schema, name = (
        part[1:-1].replace('""', '"') if part.startswith('"') else part for part in match.groups()
    )
    return QualifiedName(schema, name)


def _bind(
    connection: Connection[TupleRow],
    stream_table: StreamTable,
    sql: str,
    moved: Sequence[_Moved],
    before: Sequence[BoundObject],
) -> Binding:
    """Bind a rewritten query, and check that it is bound to the same objects."""

    def check(found: Sequence[BoundObject]) -> None:
        check_meaning(connection, stream_table.name, before, found)
        _check_same(stream_table, before, found)

    try:
        with connection.transaction():
            connection.execute("SELECT pg_catalog.set_config('search_path', %s, true)", [OWN_PATH])
            return bind_again(connection, sql, check)
    except (MeaningChangedError, PrivilegeError):
        raise
    except TrickleError as error:
        if not error.code.startswith("ST1"):
            raise
        words = "; ".join(one.words for one in moved)
        raise SourceSchemaChangedError(
            f'the query of "{stream_table.name}" cannot follow: {words}, and then: {error}',
            detail=error.detail,
            hint="Undo it, or give the stream table a query that fits:"
            f" pgtrickle alter {stream_table.name} --query.",
        ) from error


def _check_same(
    stream_table: StreamTable, before: Sequence[BoundObject], found: Sequence[BoundObject]
) -> None:
    wanted = {(one.class_, one.oid) for one in before if one.direct}
    if wanted != {(one.class_, one.oid) for one in found if one.direct}:
        raise MeaningChangedError(
            f'the query of "{stream_table.name}" would read something else under the new names',
            hint=f"Give it a query with these names: pgtrickle alter {stream_table.name} --query.",
        )


_RECORD = """
    WITH followed AS (
        UPDATE pgtrickle.pgt_snapshots AS n SET defining_query = %(sql)s
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.pgt_id = %(id)s AND n.pgt_id = s.pgt_id AND n.defining_query = s.defining_query
    )
    UPDATE pgtrickle.pgt_stream_tables
       SET defining_query = %(sql)s, original_query = %(original)s,
           bound = bound || %(bound)s, updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""
_RENAME_DEPENDENCIES = """
    UPDATE pgtrickle.pgt_dependencies AS d
       SET source_schema = n.nspname, source_name = c.relname
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE d.pgt_id = %(id)s AND c.oid = d.source_relid
       AND (d.source_schema <> n.nspname OR d.source_name <> c.relname)
"""
_RENAME_TRACKING = """
    UPDATE pgtrickle.pgt_change_tracking AS t
       SET source_schema = n.nspname, source_name = c.relname
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE t.source_relid IN (SELECT d.source_relid FROM pgtrickle.pgt_dependencies AS d
                               WHERE d.pgt_id = %(id)s)
       AND c.oid = t.source_relid
       AND (t.source_schema <> n.nspname OR t.source_name <> c.relname)
"""
_GET_PATH = """
    SELECT s.query_search_path, s.original_query
      FROM pgtrickle.pgt_stream_tables AS s WHERE s.pgt_id = %(id)s
"""


def _record(
    connection: Connection[TupleRow],
    stream_table: StreamTable,
    text: BoundText,
    renames: Mapping[tuple[Role, QualifiedName], QualifiedName],
    *,
    again: bool,
) -> None:
    [(path, original)] = connection.execute(_GET_PATH, {"id": stream_table.id}).fetchall()
    values = {
        "id": stream_table.id,
        "sql": text.sql,
        "original": _rewrite_original(connection, stream_table, original, path, text, renames),
        "bound": Jsonb(
            {"objects": [one.to_json() for one in text.objects or ()]}
            | ({"again": True} if again else {})
        ),
    }
    connection.execute(_RECORD, values)
    connection.execute(_RENAME_DEPENDENCIES, values)
    connection.execute(_RENAME_TRACKING, values)
    # An outdated comment is renewed by the next change.
    with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '100ms'")
        describe_stream_table(connection, stream_table.id)


def _rewrite_original(
    connection: Connection[TupleRow],
    stream_table: StreamTable,
    original: str,
    path: str,
    text: BoundText,
    renames: Mapping[tuple[Role, QualifiedName], QualifiedName],
) -> str:
    """Return the user's text with the new names, if it means the same; else the bound text.

    Nothing is planned, so no function runs that the user's path may find now.
    """

    def check(found: Sequence[BoundObject]) -> None:
        _check_same(stream_table, text.objects or (), found)

    for candidate in (original, rename_in_query(original, renames, by_hand=True)):
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("SELECT pg_catalog.set_config('search_path', %s, true)", [path])
                found = pin_answers(connection, bind_again(connection, candidate, check))
                if found.query.sql == text.sql:
                    return candidate
        except TrickleError:
            continue
    return text.sql
