"""The objects of a query, read from the dependencies of its rule, and the recorded ones.

PostgreSQL records for every rule of a view the objects it uses: relations, functions, operators,
types, collations, except built-in ones, which no role can replace.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.errors import MeaningChangedError, StreamTableNotFoundError
from pgtrickle.model.bound_object import BoundObject, explain_changes
from pgtrickle.model.text.names import QualifiedName

# Functions behind operators and aggregates are not dependencies of the rule: they are passed in.
_READ = """
    WITH used AS (
        SELECT d.refclassid AS class, d.refobjid AS oid,
               pg_catalog.bool_or(r.ev_class = %(view)s) AS direct
          FROM pg_catalog.pg_depend AS d
          JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
         WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
           AND r.ev_class = ANY(%(views)s::oid[]) AND d.refobjid <> r.ev_class
         GROUP BY 1, 2
    ), objects AS (
        SELECT u.class, u.oid, u.direct FROM used AS u
         UNION ALL
        SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, f.oid, false
          FROM pg_catalog.unnest(%(functions)s::oid[]) AS f (oid)
         WHERE NOT EXISTS (SELECT FROM used AS u WHERE u.oid = f.oid
                              AND u.class = 'pg_catalog.pg_proc'::pg_catalog.regclass)
    ), known AS (
        SELECT o.*, CASE WHEN c.oid IS NOT NULL THEN 'relation'
                         WHEN p.oid IS NOT NULL THEN 'function'
                         WHEN x.oid IS NOT NULL THEN 'operator'
                         WHEN t.oid IS NOT NULL THEN 'type' ELSE 'collation' END AS kind,
               COALESCE(c.relowner, p.proowner, x.oprowner, t.typowner, l.collowner) AS owner,
               CASE WHEN p.oid IS NOT NULL THEN (
                        SELECT md5(string_agg(q.oid::text, ' ' ORDER BY q.oid))
                          FROM pg_catalog.pg_proc AS q
                         WHERE q.proname = p.proname AND q.pronamespace = p.pronamespace)
                    WHEN x.oid IS NOT NULL THEN (
                        SELECT md5(string_agg(q.oid::text, ' ' ORDER BY q.oid))
                          FROM pg_catalog.pg_operator AS q
                         WHERE q.oprname = x.oprname AND q.oprnamespace = x.oprnamespace)
               END AS candidates
          FROM objects AS o
          LEFT JOIN pg_catalog.pg_class AS c
            ON c.oid = o.oid AND o.class = 'pg_catalog.pg_class'::pg_catalog.regclass
          LEFT JOIN pg_catalog.pg_proc AS p
            ON p.oid = o.oid AND o.class = 'pg_catalog.pg_proc'::pg_catalog.regclass
          LEFT JOIN pg_catalog.pg_operator AS x
            ON x.oid = o.oid AND o.class = 'pg_catalog.pg_operator'::pg_catalog.regclass
          LEFT JOIN pg_catalog.pg_type AS t
            ON t.oid = o.oid AND o.class = 'pg_catalog.pg_type'::pg_catalog.regclass
          LEFT JOIN pg_catalog.pg_collation AS l
            ON l.oid = o.oid AND o.class = 'pg_catalog.pg_collation'::pg_catalog.regclass
         WHERE o.class = ANY(ARRAY['pg_catalog.pg_class', 'pg_catalog.pg_proc',
                                   'pg_catalog.pg_operator', 'pg_catalog.pg_type',
                                   'pg_catalog.pg_collation']::pg_catalog.regclass[])
    )
    SELECT k.kind, k.oid, i.type, i.identity, pg_catalog.pg_get_userbyid(k.owner), k.owner,
           k.direct, COALESCE(k.candidates, ''),
           COALESCE(r.rolsuper OR r.rolname = current_user, false)
      FROM known AS k
      LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = k.owner,
           pg_catalog.pg_identify_object(k.class, k.oid, 0) AS i
     ORDER BY 1, 4
"""


def read_bound_objects(
    connection: Connection[TupleRow],
    view: int,
    views: Collection[int],
    functions: Collection[int],
) -> tuple[BoundObject, ...]:
    """Return the objects that the query of ``view`` uses, including those of its ``views``."""
    values = {"view": view, "views": list(views), "functions": list(functions)}
    return tuple(BoundObject(*row) for row in connection.execute(_READ, values))


@dataclass(frozen=True, slots=True)
class BoundText:
    """The query of a stream table as PostgreSQL printed it, and the objects of its names."""

    sql: str
    objects: tuple[BoundObject, ...] | None  # None: recorded by a version that did not keep them
    pinned: tuple[str, ...] = ()  # what was added at creation, so that there is one answer


_GET = "SELECT defining_query, bound FROM pgtrickle.pgt_stream_tables WHERE pgt_id = %(id)s"


def get_bound_text(connection: Connection[TupleRow], stream_table_id: int) -> BoundText:
    """Return the recorded text and objects."""
    row = connection.execute(_GET, {"id": stream_table_id}).fetchone()
    if row is None:
        raise StreamTableNotFoundError(
            f"the stream table with id {stream_table_id} does not exist any more",
            hint="List them with: pgtrickle list.",
        )
    sql, bound = row
    if bound is None:
        return BoundText(sql, None)
    objects = tuple(map(BoundObject.from_json, bound["objects"]))
    return BoundText(sql, objects, tuple(bound.get("pinned", ())))


_RECORD = """
    WITH followed AS (
        UPDATE pgtrickle.pgt_snapshots AS n SET defining_query = %(sql)s
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.pgt_id = %(id)s AND n.pgt_id = s.pgt_id AND n.defining_query = s.defining_query
    )
    UPDATE pgtrickle.pgt_stream_tables
       SET bound = %(bound)s, defining_query = %(sql)s
     WHERE pgt_id = %(id)s
"""


def record_bound_objects(
    connection: Connection[TupleRow],
    stream_table_id: int,
    sql: str,
    objects: Sequence[BoundObject],
    pinned: Sequence[str] = (),
) -> None:
    """Record the objects that a stream table's query is bound to, and its text with their names."""
    bound = Jsonb({"objects": [one.to_json() for one in objects], "pinned": list(pinned)})
    connection.execute(_RECORD, {"id": stream_table_id, "bound": bound, "sql": sql})


def record_bound_again(
    connection: Connection[TupleRow],
    stream_table_id: int,
    sql: str,
    objects: Sequence[BoundObject],
    pinned: Sequence[str],
) -> None:
    """Record the new meaning of a query; its next refresh is REINITIALIZE."""
    listed = [one.to_json() for one in objects]
    bound = Jsonb({"objects": listed, "pinned": list(pinned), "again": True})
    connection.execute(_RECORD, {"id": stream_table_id, "bound": bound, "sql": sql})


_LIST_ROLES = """
    SELECT r.rolname, r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = ANY(%(names)s)
"""


def list_meaning_changes(
    connection: Connection[TupleRow], before: Sequence[BoundObject], now: Sequence[BoundObject]
) -> list[str]:
    """Describe how the present objects of a query differ from the recorded ones."""
    names = sorted({one.owner for one in before})
    roles: dict[str, int] = dict(connection.execute(_LIST_ROLES, {"names": names}).fetchall())
    return explain_changes(before, now, roles)


def check_meaning(
    connection: Connection[TupleRow],
    name: QualifiedName,
    before: Sequence[BoundObject],
    now: Sequence[BoundObject],
) -> None:
    """Raise ST306 if a query is bound to other objects than the recorded ones."""
    changes = list_meaning_changes(connection, before, now)
    if changes:
        raise MeaningChangedError(
            f'the query of "{name}" no longer means what it meant: {"; ".join(changes)}',
            hint=f"Undo the change, or let the query mean this: pgtrickle repair {name}.",
        )


_LIST_DISTURBED = """
    SELECT change FROM pgtrickle.list_disturbances(%(id)s::pg_catalog.int4) AS change
"""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """The changes of the objects that a query is bound to."""

    changes: tuple[str, ...]  # described: the stream table must be compiled and loaded again
    # A function or operator of the same name was created or dropped, or a relation was renamed: the
    # query must be bound again.
    rivals: bool


def find_disturbance(connection: Connection[TupleRow], stream_table_id: int) -> Disturbance:
    """Find out whether the objects of a query have changed, with one query."""
    found = [one for (one,) in connection.execute(_LIST_DISTURBED, {"id": stream_table_id})]
    words = tuple(dict.fromkeys(one for one in found if one is not None))
    return Disturbance(words, None in found)
