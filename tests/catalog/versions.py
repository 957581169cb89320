"""Catalogs of other versions than this package's, and what a catalog consists of."""

from __future__ import annotations

import hashlib

import pytest

from pgtrickle.catalog import migrate as migration_module
from pgtrickle.catalog.migrate import Migration, list_migrations
from tests.catalog.databases import Database

NEXT = len(list_migrations()) + 1
LATER = "ALTER TABLE pgtrickle.pgt_daemons ADD COLUMN shoe_size integer;"
# Everything that the catalog consists of, as PostgreSQL describes it, but for names of roles.
_DESCRIBE = {
    "tables": """
        SELECT c.relname, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity,
               c.reloptions, obj_description(c.oid, 'pg_class')
          FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE n.nspname = 'pgtrickle' OR c.relname ~ '^bell_'""",
    "columns": """
        SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               pg_get_expr(d.adbin, d.adrelid), a.attidentity, col_description(c.oid, a.attnum)
          FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
          LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
         WHERE c.relnamespace = 'pgtrickle'::regnamespace AND NOT a.attisdropped""",
    "constraints": """
        SELECT k.conrelid::regclass::text, k.conname, pg_get_constraintdef(k.oid), k.convalidated
          FROM pg_constraint AS k WHERE k.connamespace = 'pgtrickle'::regnamespace""",
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'pgtrickle'",
    "routines": """
        SELECT pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc'),
               has_function_privilege('public', p.oid, 'EXECUTE')
          FROM pg_proc AS p WHERE p.pronamespace = 'pgtrickle'::regnamespace""",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'pgtrickle'",
    "triggers": """
        SELECT pg_get_triggerdef(t.oid), t.tgenabled FROM pg_trigger AS t
          JOIN pg_class AS c ON c.oid = t.tgrelid
         WHERE c.relnamespace = 'pgtrickle'::regnamespace AND NOT t.tgisinternal""",
    "policies": """
        SELECT p.polname, p.polrelid::regclass::text, p.polcmd, p.polpermissive,
               pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)
          FROM pg_policy AS p""",
    "grants": "SELECT level, privilege, target FROM pgtrickle.pgt_grants",
    "settings": "SELECT name, type, default_value, unit, doc FROM pgtrickle.pgt_settings",
    "versions": "SELECT version, sha256 FROM pgtrickle.pgt_schema_version",
    "files": "SELECT name, sha256, content FROM pgtrickle.pgt_sql_api",
}


def describe(connection: Database) -> dict[str, list[str]]:
    """Return everything that the catalog of a database consists of."""
    connection.execute("SET search_path = pg_catalog")
    return {
        part: sorted(map(str, connection.execute(query.encode()).fetchall()))
        for part, query in _DESCRIBE.items()
    }


def contents(connection: Database) -> list[str]:
    """Return what a database consists of, and what the catalog has on record of itself."""
    connection.execute("SET search_path = pg_catalog")
    objects = connection.execute(
        "SELECT pg_describe_object('pg_class'::regclass, oid, 0), relfilenode, xmin"
        "  FROM pg_class WHERE oid >= 16384 AND relkind <> 't'"
        " UNION ALL SELECT pg_describe_object('pg_proc'::regclass, oid, 0), 0, xmin"
        "  FROM pg_proc WHERE oid >= 16384"
        " UNION ALL SELECT nspname, 0, xmin FROM pg_namespace WHERE nspname !~ '^pg_'"
    ).fetchall()
    return sorted(map(str, objects))


def publish(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let the package have one migration more."""
    hashed = hashlib.sha256(text.encode()).hexdigest()
    known = (*list_migrations(), Migration(NEXT, "later", text, hashed))
    monkeypatch.setattr(migration_module, "list_migrations", lambda: known)
