"""Check the rights of a query in the catalogs: planning it would cost time and run code."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import PrivilegeError, TrickleError
from pgtrickle.model.text.names import quote_identifier

# A view reads with the rights of its owner, unless it is security_invoker.  A query that uses no
# column of a table (count(*)) needs a right on any column.
_LIST_FORBIDDEN = """
    WITH used AS (
        SELECT r.ev_class, d.refobjid AS relid,
               pg_catalog.array_agg(d.refobjsubid) FILTER (WHERE d.refobjsubid > 0) AS columns
          FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
         WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
           AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
           AND r.ev_class = ANY(%(views)s::oid[]) AND d.refobjid <> r.ev_class
           AND d.refobjid = ANY(%(relations)s::oid[])
         GROUP BY 1, 2
    ), asked AS (
        SELECT u.relid, u.columns,
               CASE WHEN EXISTS (
                        SELECT FROM pg_catalog.pg_options_to_table(v.reloptions) AS o
                         WHERE o.option_name = 'security_invoker'
                           AND o.option_value::pg_catalog.bool)
                    THEN (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = current_user)
                    ELSE v.relowner END AS role
          FROM used AS u JOIN pg_catalog.pg_class AS v ON v.oid = u.ev_class
    )
    SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence'
                          WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
                          ELSE 'table' END,
           pg_catalog.format('%%I.%%I', n.nspname, c.relname),
           pg_catalog.pg_get_userbyid(a.role)
      FROM asked AS a
      JOIN pg_catalog.pg_class AS c ON c.oid = a.relid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE NOT pg_catalog.has_table_privilege(a.role, a.relid, 'SELECT')
       AND NOT CASE WHEN a.columns IS NULL
                    THEN pg_catalog.has_any_column_privilege(a.role, a.relid, 'SELECT')
                    ELSE (SELECT pg_catalog.bool_and(pg_catalog.has_column_privilege(
                                     a.role, a.relid, k.number::pg_catalog.int2, 'SELECT'))
                            FROM pg_catalog.unnest(a.columns) AS k (number)) END
     UNION ALL
    SELECT 'function', p.oid::pg_catalog.regprocedure::pg_catalog.text, current_user
      FROM pg_catalog.pg_proc AS p
     WHERE p.oid = ANY(%(functions)s::oid[]) AND p.proacl IS NOT NULL
       AND NOT pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
     LIMIT 1
"""


_TARGETS = {"function": "FUNCTION ", "schema": "SCHEMA ", "sequence": "SEQUENCE "}


def check_rights(
    connection: Connection[TupleRow],
    views: Collection[int],
    relations: Collection[int],
    functions: Collection[int],
) -> None:
    """Raise ST303 if the query of these views lacks a right to read or call an object."""
    asked = {"views": list(views), "relations": list(relations), "functions": list(functions)}
    for kind, name, role in connection.execute(_LIST_FORBIDDEN, asked):
        raise _denied(kind, name, role, "EXECUTE" if kind == "function" else "SELECT")


_FIND_UNREADABLE = """
    SELECT kind, name, current_user
      FROM pgtrickle.find_unreadable(
               %(relations)s::pg_catalog.oid[], %(columns)s::pg_catalog.text[])
"""
_DENIED = "42501"


def explain_denial(
    connection: Connection[TupleRow], error: TrickleError, read: Mapping[int, Iterable[str]]
) -> TrickleError:
    """Return the error of a refresh that lacks a right, with the source and the GRANT that helps.

    ``read`` holds the columns that it reads of each source.
    """
    if not isinstance(error, PrivilegeError) or error.sqlstate != _DENIED:
        return error
    return _find_denial(connection, read) or error


def check_readable(connection: Connection[TupleRow], read: Mapping[int, Iterable[str]]) -> None:
    """Raise ST303 if a source can no longer be read, by its columns in ``read``.

    PostgreSQL does not check this for a refresh that reads nothing but change buffers.
    """
    if (denial := _find_denial(connection, read)) is not None:
        raise denial


def _find_denial(
    connection: Connection[TupleRow], read: Mapping[int, Iterable[str]]
) -> PrivilegeError | None:
    pairs = [(relid, name) for relid, names in read.items() for name in [None, *names]]
    asked = {"relations": [relid for relid, _ in pairs], "columns": [name for _, name in pairs]}
    for kind, name, role in connection.execute(_FIND_UNREADABLE, asked):
        return _denied(kind, name, role, "USAGE" if kind == "schema" else "SELECT")
    return None


def _denied(kind: str, name: str, role: str, right: str) -> PrivilegeError:
    target = f"{_TARGETS.get(kind, '')}{name}"
    return PrivilegeError(
        f'permission denied for {kind} {name}: the role "{role}" lacks {right}',
        hint=f"Let its owner run: GRANT {right} ON {target} TO {quote_identifier(role)};",
    )
