"""What is in our schemas and is not the owner's, or calls what is not: found by one query."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from pgtrickle.catalog.access.standing import FIX_SEARCH_PATH


@dataclass(frozen=True, slots=True)
class Foreign:
    """One thing that should not be there, or should not be possible."""

    trouble: str  # a key of the texts in ``trust``
    object: str
    role: str | None  # None: PUBLIC


# What is in our schemas is found by its dependency on the schema, whatever kind of thing it is.
# Of what belongs to the first superuser no owner is on record: his number is always 10.
FIND_FOREIGN = """
    WITH schemas AS MATERIALIZED (
        SELECT n.oid, n.nspname, n.nspowner, n.nspacl FROM pg_namespace AS n
         WHERE n.nspname IN ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state')
    ), superusers AS MATERIALIZED (
        SELECT r.oid FROM pg_roles AS r WHERE r.rolsuper
    ), owners AS MATERIALIZED (
        SELECT first.nspowner AS oid
          FROM (SELECT s.nspowner FROM schemas AS s ORDER BY s.nspname LIMIT 1) AS first
         UNION
        SELECT u.oid FROM superusers AS u
         WHERE (SELECT s.nspowner FROM schemas AS s ORDER BY s.nspname LIMIT 1)
               IN (SELECT oid FROM superusers)
    ), trusted AS MATERIALIZED (
        SELECT oid FROM owners UNION SELECT oid FROM superusers
    ), members AS MATERIALIZED (
        SELECT d.classid, d.objid, s.oid AS schema, coalesce(o.refobjid, 10::oid) AS owner
          FROM schemas AS s
          JOIN pg_depend AS d
            ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = s.oid AND d.deptype = 'n'
          LEFT JOIN pg_shdepend AS o
            ON o.dbid = (SELECT b.oid FROM pg_database AS b WHERE b.datname = current_database())
           AND o.classid = d.classid AND o.objid = d.objid AND o.deptype = 'o'
    ), relations AS MATERIALIZED (
        SELECT c.oid, c.relname, c.relkind, c.relowner, c.relacl, c.relhastriggers, c.relhasrules,
               c.relhassubclass, c.relforcerowsecurity, s.oid AS schema, s.nspname
          FROM members AS m
          JOIN pg_class AS c ON c.oid = m.objid
          JOIN schemas AS s ON s.oid = m.schema
         WHERE m.classid = 'pg_class'::regclass
    ), parts AS (
        SELECT m.classid, m.objid, m.schema
          FROM members AS m JOIN schemas AS s ON s.oid = m.schema AND s.nspname = 'pgtrickle'
         UNION ALL
        SELECT d.classid, d.objid, m.schema
          FROM members AS m
          JOIN pg_depend AS d
            ON d.refclassid = m.classid AND d.refobjid = m.objid AND d.deptype IN ('a', 'i')
         WHERE m.classid IN ('pg_class'::regclass, 'pg_type'::regclass)
           AND d.classid <> 'pg_type'::regclass
    ), uses AS MATERIALIZED (
        SELECT p.classid, p.objid, p.schema, u.refclassid, u.refobjid
          FROM parts AS p
          JOIN pg_depend AS u ON u.classid = p.classid AND u.objid = p.objid
         WHERE u.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass)
    ), foreign_uses AS (
        SELECT u.classid, u.objid, u.refclassid, u.refobjid, f.proowner AS owner
          FROM uses AS u JOIN pg_proc AS f ON f.oid = u.refobjid
         WHERE u.refclassid = 'pg_proc'::regclass
         UNION ALL
        SELECT u.classid, u.objid, u.refclassid, u.refobjid, o.oprowner
          FROM uses AS u JOIN pg_operator AS o ON o.oid = u.refobjid
         WHERE u.refclassid = 'pg_operator'::regclass
         UNION ALL
        -- Buffers and state have the types of the sources, whoever owns them.
        SELECT u.classid, u.objid, u.refclassid, u.refobjid, t.typowner
          FROM uses AS u JOIN pg_type AS t ON t.oid = u.refobjid
          JOIN schemas AS s ON s.oid = u.schema AND s.nspname = 'pgtrickle'
         WHERE u.refclassid = 'pg_type'::regclass
    ), found AS (
        SELECT 'owner' AS trouble, pg_describe_object('pg_namespace'::regclass, s.oid, 0) AS object,
               s.nspowner AS role
          FROM schemas AS s WHERE s.nspowner NOT IN (SELECT oid FROM owners)
         UNION ALL
        SELECT 'owner', pg_describe_object(m.classid, m.objid, 0), m.owner
          FROM members AS m WHERE m.owner NOT IN (SELECT oid FROM owners)
         UNION ALL
        SELECT 'create', s.nspname, a.grantee
          FROM schemas AS s, aclexplode(s.nspacl) AS a
         WHERE a.privilege_type = 'CREATE' AND a.grantee NOT IN (SELECT oid FROM trusted)
         UNION ALL
        SELECT 'trigger', c.oid::regclass::text, a.grantee
          FROM relations AS c, aclexplode(c.relacl) AS a
         WHERE a.privilege_type IN ('TRIGGER', 'REFERENCES')
           AND a.grantee NOT IN (SELECT oid FROM trusted)
           AND CASE WHEN a.grantee <> 0 THEN has_schema_privilege(a.grantee, c.schema, 'USAGE')
                    ELSE EXISTS (SELECT FROM schemas AS s, aclexplode(s.nspacl) AS u
                                  WHERE s.oid = c.schema AND u.privilege_type = 'USAGE'
                                    AND u.grantee NOT IN (SELECT oid FROM trusted)) END
         UNION ALL
        SELECT 'kind', pg_describe_object('pg_class'::regclass, c.oid, 0), c.relowner
          FROM relations AS c
         WHERE c.relkind NOT IN ('r', 'S')
           AND (c.nspname <> 'pgtrickle' OR starts_with(c.relname::text, 'pgt_'))
         UNION ALL
        SELECT 'forced', c.oid::regclass::text, c.relowner
          FROM relations AS c WHERE c.relforcerowsecurity
         UNION ALL
        SELECT 'thing', pg_describe_object('pg_trigger'::regclass, t.oid, 0), f.proowner
          FROM relations AS c
          JOIN pg_trigger AS t ON t.tgrelid = c.oid
          JOIN pg_proc AS f ON f.oid = t.tgfoid
         WHERE c.relhastriggers
           AND CASE WHEN t.tgisinternal THEN f.pronamespace <> 'pg_catalog'::regnamespace
                    ELSE f.proowner NOT IN (SELECT oid FROM owners) END
         UNION ALL
        SELECT 'thing', pg_describe_object('pg_constraint'::regclass, t.tgconstraint, 0), k.relowner
          FROM relations AS c
          JOIN pg_trigger AS t ON t.tgrelid = c.oid AND t.tgisinternal
          JOIN pg_class AS k ON k.oid = t.tgconstrrelid
         WHERE c.relhastriggers AND k.relowner NOT IN (SELECT oid FROM owners)
         UNION ALL
        SELECT 'thing', pg_describe_object('pg_rewrite'::regclass, r.oid, 0), c.relowner
          FROM relations AS c
          JOIN pg_rewrite AS r ON r.ev_class = c.oid
         WHERE c.relhasrules AND (c.relkind <> 'v' OR r.rulename <> '_RETURN')
         UNION ALL
        SELECT 'child', pg_describe_object('pg_class'::regclass, k.oid, 0), k.relowner
          FROM relations AS c
          JOIN pg_inherits AS i ON i.inhparent = c.oid
          JOIN pg_class AS k ON k.oid = i.inhrelid
         WHERE c.relhassubclass AND k.relowner NOT IN (SELECT oid FROM owners)
         UNION ALL
        SELECT 'child', pg_describe_object('pg_class'::regclass, k.oid, 0), k.relowner
          FROM relations AS c
          JOIN pg_inherits AS i ON i.inhrelid = c.oid
          JOIN pg_class AS k ON k.oid = i.inhparent
         WHERE k.relowner NOT IN (SELECT oid FROM owners)
         UNION ALL
        SELECT 'uses', pg_describe_object(u.classid, u.objid, 0) || ' uses '
                       || pg_describe_object(u.refclassid, u.refobjid, 0), u.owner
          FROM foreign_uses AS u WHERE u.owner NOT IN (SELECT oid FROM trusted)
         LIMIT 1
    )
    SELECT f.trouble, f.object,
           (SELECT r.rolname FROM pg_roles AS r WHERE r.oid = f.role) AS role
      FROM found AS f
"""


def find_foreign(connection: Connection[TupleRow]) -> Foreign | None:
    """Return the first thing in our schemas that others own, can change or could add."""
    with connection.transaction(force_rollback=True):
        connection.execute(FIX_SEARCH_PATH)
        with connection.cursor(row_factory=class_row(Foreign)) as cursor:
            return cursor.execute(FIND_FOREIGN).fetchone()
