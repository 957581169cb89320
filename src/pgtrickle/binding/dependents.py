"""The objects that PostgreSQL would drop together with a table."""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection
from psycopg.rows import TupleRow

# Parts of a table (indexes, triggers, row type) are dropped silently; their dependents are listed.
_LIST = """
    WITH RECURSIVE gone (class, id, told) AS (
        SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, r.oid, false
          FROM pg_catalog.unnest(%(relids)s::oid[]) AS r (oid)
         UNION
        SELECT x.class, x.id, x.told
          FROM gone AS g
          JOIN pg_catalog.pg_depend AS d
            ON d.refclassid = g.class AND d.refobjid = g.id AND d.deptype IN ('n', 'a', 'i')
          LEFT JOIN pg_catalog.pg_rewrite AS r
            ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND r.oid = d.objid
               AND r.rulename = '_RETURN'
         CROSS JOIN LATERAL (
               SELECT CASE WHEN r.oid IS NULL THEN d.classid
                           ELSE 'pg_catalog.pg_class'::pg_catalog.regclass::oid END,
                      COALESCE(r.ev_class, d.objid), d.deptype = 'n') AS x (class, id, told)
    )
    SELECT DISTINCT i.type || ' ' || i.identity
      FROM gone AS g, pg_catalog.pg_identify_object(g.class, g.id, 0) AS i
     WHERE g.told
       AND NOT (g.class = 'pg_catalog.pg_class'::pg_catalog.regclass AND g.id = ANY(%(relids)s))
     ORDER BY 1
"""


def list_dependent_objects(connection: Connection[TupleRow], relids: Collection[int]) -> list[str]:
    """Return the views and other objects that depend on some tables, each with its kind."""
    return [one for (one,) in connection.execute(_LIST, {"relids": list(relids)})]
