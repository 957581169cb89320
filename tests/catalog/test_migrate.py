"""Migrations apply once, in order, for ordinary roles, and refuse what they do not know."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from pgtrickle.catalog.migrate import (
    check_version,
    list_api_files,
    list_migrations,
    migrate,
)
from pgtrickle.errors import (
    CatalogCorruptError,
    CatalogMissingError,
    CatalogOutdatedError,
    CatalogTooNewError,
    PrivilegeError,
)
from tests.catalog.databases import SHADOWS, Database, ordinary_role, value

# A migration is never edited once it is here: add a line for each new one, change none.
RELEASED = {
    1: "a39994e2853964b54a1b24527b82d93c604c90672b3b85ebfdd2194bbfdbc2ee",
    2: "55de5c8c07b2525e004171d0fbb2188926059279fc6311cdbdbe21eb92fa73ce",
    3: "d7b3a03da6f4f757b09fc52249fa98164797095e5017d1bfa8059e4498226125",
    4: "8dd2412e8df325075bca79bc1d76afa377a018c2190cee747019833b87fcda43",
    5: "269318eb828dd3397052aeb08c10f946b12c08cd54d07e2747d822599bc1d855",
    6: "fe34dcfc4489987cacf3283ebd443120fe2e9066fac7474ad43e56b1c6aa24d5",
    7: "ebf1f4e4b7be13a013b41a2c9548fde0805519ca4651e043a9233eaa53b20bfe",
    8: "49757c8102aaf3a591730debde93f4092bd492e62b8a750d743b485ffc98c586",
    9: "5aa7cdc58ce4e9c4424c83fe16f228e4e385613c27ec2079d2eee48b703adfcd",
    10: "2fe99808297899cb3b61285367dadd12f333f9d0ccda4576ec6df6a87029fa65",
    11: "5f77166828b83ccfb6f993adebe50ea1c67d18bde61dee28ee83bf78137e2072",
    12: "ac982a9e15587d1cf46300d48c5949309aa04d92a4f639a54449951b02d4331f",
    13: "bacb9450487fb9568e0e87ce7fbac5391f936eade532bc067347651410dbb37d",
    14: "9fc25d5d93b3cc959a9aa4f1d4119b1270e144527e8a3652dccc47e10828d84b",
    15: "007b07d2d8fcc2ecde2552f12380c64a7e161e02b8daff027ac8a78f07607a1c",
    16: "520302943261c8a1a12be27aa61ddcacb9cbf8ee2efd73f8b1c2511be1c0c80d",
    17: "4c792244054a211fd5f84d09583fafcd3dc70f9a5c86deb891f3f1c6f81176bd",
    18: "7a25bc6d656a45d0c660467364f48c75d16f0ad52c350943e147476ec4da0a94",
    19: "942c69204572bab2409bd611866b070cfc030060bec39bfe6f8b6ff54a525c2e",
    20: "a3746c2297a679690cb521c21f959763c684f1d145d88d90c890511806394a15",
    21: "5bba72666fdfc13b6020bd76effb30c8e2902b48ff6b96987e745f2aaf216cdb",
    22: "50ba38bff7e09de2b0111776d1938b630c066b1dceff81862fa71e8e410b107d",
    23: "f75c179305a789337e3898a4d19879c23117f22b872f636b9d9efedb8af8e1ea",
    24: "dae6db21313a40c761403c047d2aff6269bd05c5e1b62e97a287674585dc7a7f",
    25: "b4c378be91248adea920867e7a7b55c4eef96136523a3c3150860cdfd3a042ef",
    26: "f4ab5d942372a46677eb8ffa33361dd7a2787d5af585e169cd81fa6853b2611f",
}
ALL = [
    *(f"{migration.version:04d} {migration.description}" for migration in list_migrations()),
    *(file.name for file in list_api_files()),
]


@pytest.fixture
def database(empty_database: str) -> str:
    """Let each test make the catalog itself."""
    return empty_database


@pytest.fixture
def catalog(database: str) -> Iterator[Database]:
    """Connect to a database that has the catalog."""
    with psycopg.connect(database, autocommit=True) as connection:
        migrate(connection)
        yield connection


def test_released_migrations_never_change():
    hashes = {migration.version: migration.sha256 for migration in list_migrations()}

    assert hashes == RELEASED


def test_versions_count_from_one_without_gaps():
    versions = [migration.version for migration in list_migrations()]

    assert versions == [number + 1 for number in range(len(versions))]


@pytest.mark.parametrize("migration", list_migrations(), ids=lambda found: found.description)
def test_migration_has_the_four_line_header(migration):
    header = migration.sql.split("\n\n")[0]

    assert header.startswith(f"-- {migration.version:04d} · ")
    assert re.findall(r"^-- (\w+):", header, re.MULTILINE) == ["Why", "Reads", "Locks", "Undo"]


def test_migrate_applies_everything_once(database: str):
    with psycopg.connect(database) as connection:
        first, second = migrate(connection), migrate(connection)
        check_version(connection)

    assert (first, second) == (ALL, [])


def test_migrate_works_for_an_ordinary_role(ordinary: Database, role: str):
    assert migrate(ordinary) == ALL

    check_version(ordinary)
    owner = value(
        ordinary, "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'pgtrickle'"
    )
    assert owner == role


def test_migrate_ignores_a_hostile_search_path(database: str):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(SHADOWS)

        assert migrate(connection) == ALL

        check_version(connection)
        assert value(connection, "SHOW search_path") == "hostile, pg_catalog, public"
        shadowed = value(
            connection,
            """SELECT count(*) FROM pg_catalog.pg_attribute a
                 JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
                WHERE a.attrelid::pg_catalog.regclass::pg_catalog.text LIKE 'pgtrickle.%%'
                  AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace""",
        )
        assert shadowed == 0


def test_migrate_inside_an_open_transaction_is_undone_with_it(database: str):
    with psycopg.connect(database) as connection:
        value(connection, "SELECT 1")
        migrate(connection)
        connection.rollback()

        with pytest.raises(CatalogMissingError):
            check_version(connection)


def test_two_processes_may_migrate_at_once(database: str):
    results: list[list[str]] = []

    def run() -> None:
        with psycopg.connect(database) as connection:
            results.append(migrate(connection))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(name for result in results for name in result) == ALL


def test_migrate_needs_create_on_the_database(ordinary: Database, role: str):
    ordinary.execute("RESET SESSION AUTHORIZATION")
    ordinary.execute(
        sql.SQL("REVOKE CREATE ON DATABASE {} FROM {}").format(
            sql.Identifier(ordinary.info.dbname), sql.Identifier(role)
        )
    )
    ordinary.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))

    with pytest.raises(PrivilegeError) as caught:
        migrate(ordinary)

    assert "GRANT CREATE ON DATABASE" in caught.value.hint


def test_migrate_uses_schemas_that_an_administrator_made(ordinary: Database, role: str):
    ordinary.execute("RESET SESSION AUTHORIZATION")
    for schema in ("pgtrickle", "pgtrickle_changes", "pgtrickle_state"):
        ordinary.execute(
            sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(
                sql.Identifier(schema), sql.Identifier(role)
            )
        )
    ordinary.execute(
        sql.SQL("REVOKE CREATE ON DATABASE {} FROM {}").format(
            sql.Identifier(ordinary.info.dbname), sql.Identifier(role)
        )
    )
    ordinary.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))

    assert migrate(ordinary) == ALL


def test_migrate_refuses_a_schema_of_someone_else(ordinary: Database, role: str):
    ordinary.execute("RESET SESSION AUTHORIZATION")
    ordinary.execute("CREATE SCHEMA pgtrickle; GRANT ALL ON SCHEMA pgtrickle TO PUBLIC")
    ordinary.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))

    with pytest.raises(PrivilegeError, match="does not belong to"):
        migrate(ordinary)


def test_check_version_asks_for_init_and_spares_the_transaction(database: str):
    with psycopg.connect(database) as connection:
        value(connection, "SELECT 1")

        with pytest.raises(CatalogMissingError) as caught:
            check_version(connection)

        assert caught.value.hint == "Run: pgtrickle init"
        assert value(connection, "SELECT 1") == 1


def test_a_newer_catalog_is_refused(catalog: Database):
    catalog.execute("INSERT INTO pgtrickle.pgt_schema_version VALUES (999, now(), 'later', 'x')")

    with pytest.raises(CatalogTooNewError):
        migrate(catalog)
    with pytest.raises(CatalogTooNewError):
        check_version(catalog)


def test_catalog_of_a_newer_package_is_refused_though_its_tables_are_the_same(catalog: Database):
    catalog.execute("UPDATE pgtrickle.pgt_sql_api SET package = '99.1' WHERE name = '10_sources'")

    with pytest.raises(CatalogTooNewError, match=r"99\.1"):
        check_version(catalog)
    with pytest.raises(CatalogTooNewError):
        migrate(catalog)


def test_catalog_with_other_functions_asks_for_migrate_and_gets_ours(catalog: Database):
    catalog.execute(
        "UPDATE pgtrickle.pgt_sql_api SET sha256 = 'x', package = '0.0.9' WHERE name = '80_health'"
    )
    catalog.execute("DROP VIEW pgtrickle.quick_health")

    with pytest.raises(CatalogOutdatedError) as caught:
        check_version(catalog)

    assert caught.value.hint == "Run: pgtrickle migrate"
    assert migrate(catalog) == ["80_health"]
    check_version(catalog)
    assert value(catalog, "SELECT count(*) FROM pgtrickle.quick_health") == 1


def test_file_that_is_no_longer_part_of_the_package_is_forgotten(catalog: Database):
    catalog.execute(
        "INSERT INTO pgtrickle.pgt_sql_api VALUES ('11_gone', 'x', 'SELECT 1', '0.0.1')"
    )

    migrate(catalog)

    check_version(catalog)
    assert value(catalog, "SELECT count(*) FROM pgtrickle.pgt_sql_api WHERE name = '11_gone'") == 0


def test_readers_and_operators_keep_their_level_when_a_routine_is_made_anew(
    catalog: Database, database: str
):
    with ordinary_role(database) as reader, ordinary_role(database) as operator:
        for role, level in ((reader, "reader"), (operator, "operator")):
            catalog.execute("SELECT pgtrickle.grant_access(%s, %s)", [role, level])
        catalog.execute("DROP FUNCTION pgtrickle.daemons()")
        catalog.execute("DROP FUNCTION pgtrickle.submit_request(text, jsonb)")
        catalog.execute("UPDATE pgtrickle.pgt_sql_api SET sha256 = 'x' WHERE name = '40_requests'")

        migrate(catalog)

        may = "SELECT has_function_privilege(%s, %s, 'EXECUTE')"
        submit = "pgtrickle.submit_request(text, jsonb)"
        found = [
            catalog.execute(may, [role, function]).fetchone()
            for role in (reader, operator)
            for function in ("pgtrickle.daemons()", submit)
        ]
        assert found == [(True,), (False,), (True,), (True,)]


def test_every_routine_is_defined_once_and_granted_by_a_name_that_exists(catalog: Database):
    text = "\n".join(file.sql for file in list_api_files())
    defined = re.findall(
        r"^CREATE OR REPLACE (FUNCTION|PROCEDURE|VIEW) pgtrickle\.(\w+)", text, re.MULTILINE
    )
    [lists] = re.findall(r"FROM \(VALUES \((.*?)\)\) AS l", text, re.DOTALL)
    exist = {
        name
        for (name,) in catalog.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'pgtrickle'::regnamespace"
            " UNION SELECT viewname FROM pg_views WHERE schemaname = 'pgtrickle'"
        )
    }

    assert len(defined) == len(set(defined))
    assert {name for _, name in defined} == exist
    assert set(re.findall(r"'(\w+)'", lists)) <= exist


def test_migration_that_is_killed_leaves_nothing_and_the_next_one_does_it_all(database: str):
    """The backend dies while it applies the last file."""
    with psycopg.connect(database, autocommit=True) as admin, psycopg.connect(database) as doomed:
        doomed.execute("SELECT 1")
        pid = doomed.info.backend_pid
        migrate(doomed)
        admin.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        with pytest.raises(psycopg.OperationalError):
            doomed.commit()

        assert value(admin, "SELECT to_regnamespace('pgtrickle') IS NULL") is True
        assert migrate(admin) == ALL
        check_version(admin)


def test_a_catalog_with_another_hash_is_refused(catalog: Database):
    catalog.execute("UPDATE pgtrickle.pgt_schema_version SET sha256 = 'x' WHERE version = 1")

    with pytest.raises(CatalogCorruptError, match="migration 1"):
        migrate(catalog)


def test_a_stranger_may_not_read_the_catalog(catalog: Database, ordinary: Database):
    with pytest.raises(PrivilegeError):
        check_version(ordinary)
