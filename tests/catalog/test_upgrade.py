"""A frozen catalog with stream tables in it is restored, upgraded, refreshed and verified."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.catalog import migrate as migration_module
from pgtrickle.catalog.migrate import Migration, check_version, list_migrations, migrate
from pgtrickle.errors import CatalogOutdatedError
from tests.catalog.databases import Database, value
from tests.catalog.freeze import OPERATOR, OWNER, READER, STREAM_TABLES
from tests.fakes.engine import DuckDbEngine

FROZEN = sorted(Path(__file__).parent.glob("baseline*.sql"))
_DROP = "DROP OWNED BY {role} CASCADE; DROP ROLE {role}"
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


@pytest.fixture(params=FROZEN, ids=lambda path: path.stem)
def frozen(request: pytest.FixtureRequest, empty_database: str) -> Iterator[str]:
    """Restore a frozen catalog as its owner did; yield the owner's connection string."""
    with psycopg.connect(empty_database, autocommit=True) as admin:
        for role in (OWNER, READER, OPERATOR):
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        admin.execute(
            sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(
                sql.Identifier(admin.info.dbname), sql.Identifier(OWNER)
            )
        )
        dsn = make_conninfo(empty_database, user=OWNER)
        with psycopg.connect(dsn, autocommit=True) as owner:
            owner.execute(request.param.read_text(encoding="utf-8").encode())
        yield dsn
        for role in (READER, OPERATOR, OWNER):
            admin.execute(_DROP.format(role=role).encode())


@pytest.fixture
def owner(frozen: str) -> Iterator[Database]:
    with psycopg.connect(frozen, autocommit=True) as connection:
        yield connection


def describe(connection: Database) -> dict[str, list[str]]:
    """Return everything that the catalog of a database consists of."""
    connection.execute("SET search_path = pg_catalog")
    return {
        part: sorted(map(str, connection.execute(query.encode()).fetchall()))
        for part, query in _DESCRIBE.items()
    }


def test_upgraded_catalog_equals_a_new_one(owner: Database, database: str):
    migrate(owner)
    check_version(owner)

    with psycopg.connect(database) as new:
        assert describe(owner) == describe(new)


def test_stream_tables_of_a_frozen_catalog_go_on_after_the_upgrade(frozen: str, owner: Database):
    with pgtrickle.connect(frozen, engine=DuckDbEngine(), init=True) as trickle:
        assert trickle._runtime.settings.lease_seconds == 40
        for name in STREAM_TABLES:
            trickle.refresh_stream_table(name)
            assert trickle.verify_stream_table(name).ok
        owner.execute("INSERT INTO app.orders VALUES (7, 1, 100)")
        actions = {name: trickle.refresh_stream_table(name).action.value for name in STREAM_TABLES}
        assert all(trickle.verify_stream_table(name).ok for name in STREAM_TABLES)

    assert actions == {
        "app.revenue": "DIFFERENTIAL",
        "app.large": "DIFFERENTIAL",
        "app.moods": "NO_DATA",
        "app.best": "DIFFERENTIAL",
    }
    assert value(owner, "SELECT total FROM app.best") == 110
    assert value(
        owner, "SELECT tier FROM pgtrickle.stream_tables_info WHERE pgt_name = 'large'"
    ) == ("cold")
    assert value(owner, "SELECT count(*) FROM pgtrickle.list_subscriptions()") == 1


def test_readers_of_a_frozen_catalog_look_after_the_upgrade(frozen: str, owner: Database):
    migrate(owner)

    with pgtrickle.connect(make_conninfo(frozen, user=READER), engine=DuckDbEngine()) as guest:
        names = {f"{one.name.schema}.{one.name.name}" for one in guest.list_stream_tables()}
    assert names == set(STREAM_TABLES)
    may = "SELECT has_function_privilege(%s, 'pgtrickle.submit_request(text, jsonb)', 'EXECUTE')"
    found = [owner.execute(may, [role]).fetchone() for role in (READER, OPERATOR)]
    assert found == [(False,), (True,)]


NEXT = len(list_migrations()) + 1
LATER = "ALTER TABLE pgtrickle.pgt_daemons ADD COLUMN shoe_size integer;"


def _publish(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let the package have one migration more."""
    hashed = hashlib.sha256(text.encode()).hexdigest()
    later = Migration(NEXT, "later", text, hashed)
    known = (*list_migrations(), later)
    monkeypatch.setattr(migration_module, "list_migrations", lambda: known)


def test_later_migration_is_asked_for_and_applied(
    frozen: str, owner: Database, monkeypatch: pytest.MonkeyPatch
):
    migrate(owner)
    _publish(monkeypatch, LATER)

    with pgtrickle.connect(frozen, engine=DuckDbEngine()) as trickle:
        with pytest.raises(CatalogOutdatedError, match=f"this package needs {NEXT}"):
            trickle.refresh_stream_table("app.revenue")
        assert trickle.migrate() == [f"{NEXT:04d} later"]
        trickle.refresh_stream_table("app.revenue")
        assert trickle.verify_stream_table("app.revenue").ok
    assert value(owner, "SELECT count(shoe_size) FROM pgtrickle.pgt_daemons") == 0


def test_migration_that_fails_half_way_leaves_nothing_of_it(
    owner: Database, monkeypatch: pytest.MonkeyPatch
):
    migrate(owner)
    before = describe(owner)
    with monkeypatch.context() as broken:
        _publish(broken, f"{LATER} SELECT 1 / 0;")
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate(owner)

    assert describe(owner) == before
    _publish(monkeypatch, LATER)
    assert migrate(owner) == [f"{NEXT:04d} later"]
