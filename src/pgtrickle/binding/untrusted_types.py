"""Types whose conversion may run code of an untrusted role.

A domain evaluates its CHECKs, a range calls its functions, and a cast with a function may be in the
text of a query, where it is looked up each time the text is parsed.  The owner of the type decides
what runs with our rights, so this role must be trusted: a superuser, the owner of the catalog, the
current role, or a role of which it is a member.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import UntrustedTypeError
from pgtrickle.model.text.names import quote_identifier

# Of expressions and of whole rows; a tree also lists columns that are only joined with others.
_TYPE_IN_TREE = re.compile(r"(?::(?!vartype)\w*type(?:id)?|:varattno 0 :vartype) (\d+)")
_FIRST_OF_USERS = 16384  # FirstNormalObjectId: smaller oids are PostgreSQL's own

# A superuser counts as a member of every role, so memberships are followed here instead.
_FIND = """
    WITH RECURSIVE used (oid) AS (
        SELECT pg_catalog.unnest(%(types)s::pg_catalog.oid[])
         UNION
        SELECT next.oid
          FROM used
          JOIN pg_catalog.pg_type AS t ON t.oid = used.oid
         CROSS JOIN LATERAL (
                   SELECT pg_catalog.unnest(ARRAY[t.typbasetype, t.typelem])
                    UNION ALL
                   SELECT pg_catalog.unnest(ARRAY[r.rngsubtype, r.rngtypid])
                     FROM pg_catalog.pg_range AS r
                    WHERE t.typtype IN ('r', 'm') AND t.oid IN (r.rngtypid, r.rngmultitypid)
                    UNION ALL
                   SELECT a.atttypid FROM pg_catalog.pg_attribute AS a
                    WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0
                      AND NOT a.attisdropped
               ) AS next (oid)
         WHERE next.oid >= 16384
    ), mine (oid) AS (
        SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = current_user
         UNION
        SELECT m.roleid FROM pg_catalog.pg_auth_members AS m JOIN mine ON m.member = mine.oid
    ), untrusted AS MATERIALIZED (
        SELECT r.oid, r.rolname
          FROM pg_catalog.pg_roles AS r
         WHERE NOT r.rolsuper AND r.oid NOT IN (SELECT mine.oid FROM mine)
           AND r.oid NOT IN (SELECT n.nspowner FROM pg_catalog.pg_namespace AS n
                              WHERE n.nspname = 'pgtrickle')
    )
    SELECT pg_catalog.format_type(t.oid, NULL), found.what, u.rolname, current_user
      FROM used
      JOIN pg_catalog.pg_type AS t ON t.oid = used.oid
     CROSS JOIN LATERAL (
               SELECT t.typowner, 'domain' WHERE t.typtype = 'd'
                UNION ALL
               SELECT p.proowner, 'function'
                 FROM pg_catalog.pg_range AS r
                 JOIN pg_catalog.pg_proc AS p ON p.oid IN (r.rngcanonical, r.rngsubdiff)
                WHERE t.typtype = 'r' AND r.rngtypid = t.oid
                UNION ALL
               SELECT p.proowner, 'cast'
                 FROM pg_catalog.pg_cast AS c
                 JOIN pg_catalog.pg_proc AS p ON p.oid = c.castfunc
                WHERE c.castsource IN (t.oid, t.typarray) OR c.casttarget IN (t.oid, t.typarray)
           ) AS found (owner, what)
      JOIN untrusted AS u ON u.oid = found.owner
     ORDER BY 1, 2 LIMIT 10
"""
_SAYINGS = {
    "domain": "the domain {type} belongs to {role}, whose CHECKs would run with your rights",
    "function": "the type {type} calls a function of {role}, with your rights",
    "cast": "the type {type} has a cast by a function of {role}, which would run with your rights",
}


_COLUMN_TYPES = """
    SELECT a.atttypid
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = %(view)s::pg_catalog.oid AND a.attnum > 0
     UNION
    SELECT a.atttypid
      FROM pg_catalog.pg_depend AS d
      JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
     WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
       AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND r.ev_class = ANY(%(views)s::pg_catalog.oid[])
"""


def list_users_types(
    connection: Connection[TupleRow], view: int, trees: Mapping[int, str]
) -> tuple[int, ...]:
    """Return the types in a view that are not built in, given all trees under it."""
    found = {int(oid) for tree in trees.values() for oid in _TYPE_IN_TREE.findall(tree)}
    columns = connection.execute(_COLUMN_TYPES, {"view": view, "views": list(trees)})
    found |= {oid for (oid,) in columns}
    return tuple(sorted(oid for oid in found if oid >= _FIRST_OF_USERS))


def find_untrusted(
    connection: Connection[TupleRow], types: Collection[int]
) -> list[UntrustedTypeError]:
    """Return the types, or their component types, that may run foreign code, with the owners."""
    if not types:
        return []
    rows = connection.execute(_FIND, {"types": list(types)}).fetchall()
    return [
        UntrustedTypeError(
            _SAYINGS[what].format(type=type_, role=quote_identifier(role)),
            hint="Use another type, or let an administrator trust its owner:"
            f" GRANT {quote_identifier(role)} TO {quote_identifier(asking)}.",
        )
        for type_, what, role, asking in rows
    ]


def check_types(connection: Connection[TupleRow], types: Collection[int]) -> None:
    """Raise ST308 if a type may run code of a role that is not trusted."""
    for problem in find_untrusted(connection, types):
        raise problem
