"""Check that the tables of a lake's catalog can be used without running foreign code.

A trigger, a rule, a policy, a default or a view in place of a table runs with the rights of the
role that uses it.  Tables of pgtrickle's role may have its own objects; other roles can only add
triggers, if they were granted that.  Tables of other roles, for example of a catalog that DuckDB
created as another role, must have none of these.  See docs/adr/0032.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from psycopg import Connection

from pgtrickle.errors import LakeCatalogError
from pgtrickle.lake.files.roots import shown
from pgtrickle.model.text.trusted import trusted

# Whether a detailed check is needed, from pg_class alone: one short scan of an index.
LOOKS_STRANGE = """
    SELECT COALESCE(bool_or(c.relkind <> 'r' OR c.relhastriggers OR c.relhasrules
                            OR c.relowner <> me.oid), false)
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_roles AS me ON me.rolname = current_user
     WHERE n.nspname = {schema} AND c.relname >= 'ducklake_' AND c.relname < 'ducklake`'
       AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_FIND_STRANGE = """
    SELECT c.relname, found.what
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_roles AS me ON me.rolname = current_user
      JOIN pg_catalog.pg_roles AS owner ON owner.oid = c.relowner
     CROSS JOIN LATERAL (SELECT CASE
           WHEN c.relkind <> 'r' THEN 'is no table'
           WHEN c.relhasrules THEN 'has a rule'
           WHEN EXISTS (
               SELECT FROM pg_catalog.pg_trigger AS t
                 JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
                 JOIN pg_catalog.pg_roles AS author ON author.oid = p.proowner
                WHERE t.tgrelid = c.oid AND NOT t.tgisinternal
                  AND NOT (author.oid = me.oid AND (t.tgqual IS NULL OR owner.oid = me.oid))
                  AND NOT (author.rolsuper AND t.tgqual IS NULL AND t.tgnargs = 0))
               THEN 'has a trigger of somebody else'
           WHEN owner.oid = me.oid OR owner.rolsuper THEN NULL
           WHEN c.relrowsecurity THEN 'has row security'
           WHEN c.relhassubclass THEN 'has tables that inherit from it'
           WHEN c.relchecks > 0 THEN 'has a check'
           WHEN EXISTS (SELECT FROM pg_catalog.pg_attrdef AS d WHERE d.adrelid = c.oid)
               THEN 'has a default'
           WHEN EXISTS (SELECT FROM pg_catalog.pg_index AS i WHERE i.indrelid = c.oid
                           AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
               THEN 'has an index with an expression'
           WHEN EXISTS (SELECT FROM pg_catalog.pg_attribute AS a
                          JOIN pg_catalog.pg_type AS y ON y.oid = a.atttypid
                         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                           AND y.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace)
               THEN 'has a column of a type that is not PostgreSQL''s own'
           END) AS found (what)
     WHERE n.nspname = %s AND c.relname >= 'ducklake_' AND c.relname < 'ducklake`'
       AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND found.what IS NOT NULL
     ORDER BY c.relname
"""
_INLINED = re.compile(r"ducklake_inlined_(?:data|delete)_\d+.*", re.DOTALL)


@cache
def catalog_tables() -> tuple[str, ...]:
    """Return the names of the tables that every catalog has.

    >>> "ducklake_snapshot" in catalog_tables()
    True
    """
    definition = resources.files("pgtrickle.lake").joinpath("catalog.sql").read_text("utf-8")
    return tuple(re.findall(r"CREATE TABLE \{schema\}\.(\w+)", definition))


def is_catalog_table(name: str) -> bool:
    """Tell whether a table of a catalog has this name.

    >>> [is_catalog_table(name) for name in ("ducklake_snapshot", "ducklake_inlined_data_1_2")]
    [True, True]
    >>> is_catalog_table("ducklake_notes")
    False
    """
    return name in catalog_tables() or _INLINED.fullmatch(name) is not None


def check_tables(connection: Connection, schema: str) -> None:
    """Raise ST701 if a table of the catalog in a schema would run foreign code."""
    statement = LOOKS_STRANGE.format(schema="%s")
    [(strange,)] = connection.execute(trusted(statement), [schema]).fetchall()
    if strange:
        refuse_strange(connection, schema)


def refuse_strange(connection: Connection, schema: str) -> None:
    """Check in detail, and raise ST701 for the first table that would run foreign code."""
    for name, what in connection.execute(_FIND_STRANGE, [schema]).fetchall():
        if is_catalog_table(name):
            raise LakeCatalogError(
                f'the table "{schema}.{shown(name)}" of the lake\'s catalog {what}, which would run'
                " with the rights of this role",
                hint="See who made it, and drop it; or let this role own the tables of the catalog,"
                " with ALTER TABLE ... OWNER TO.",
            )


def check_inlined_name(table_id: int, name: str | None) -> str:
    """Return the name of a table with inlined rows, or raise ST701 for any other name.

    The name comes from a row, which could name any relation of the schema.

    >>> check_inlined_name(7, "ducklake_inlined_data_7_12")
    'inlined_data_7_12'
    """
    if name is None or not re.fullmatch(rf"ducklake_inlined_data_{table_id}_[0-9]+", name):
        raise LakeCatalogError(
            f'the lake\'s catalog names "{shown(str(name))}" as a table with rows of a lake table',
            hint="See who wrote that into ducklake_inlined_data_tables.",
        )
    return name.removeprefix("ducklake_")
