"""Whether a query may be run, asked of the catalogs: planning it would cost, and run code."""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import PrivilegeError

# A view reads with the rights of its owner, unless it says security_invoker.  A query that uses no
# column of a table (count(*)) needs a right on any of them.
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


def check_rights(
    connection: Connection[TupleRow],
    views: Collection[int],
    relations: Collection[int],
    functions: Collection[int],
) -> None:
    """Raise ST303 if the query that consists of these views may not read or call something."""
    asked = {"views": list(views), "relations": list(relations), "functions": list(functions)}
    for kind, name, role in connection.execute(_LIST_FORBIDDEN, asked):
        right = "EXECUTE" if kind == "function" else "SELECT"
        raise PrivilegeError(
            f'permission denied for {kind} {name}: the role "{role}" lacks {right}',
            hint=f"GRANT {right} on it to this role.",
        )
