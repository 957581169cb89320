"""Migrations apply once, in order, for ordinary roles, and refuse what they do not know."""

from __future__ import annotations

import threading

import psycopg
import pytest
from psycopg import sql

from pgtrickle.catalog.migrate import check_version, list_migrations, migrate
from pgtrickle.errors import (
    CatalogCorruptError,
    CatalogMissingError,
    CatalogTooNewError,
    PrivilegeError,
)
from tests.catalog.databases import SHADOWS, Database, value

# A released migration is never edited: add a line for each new one, change none.
RELEASED = {
    1: "8ab465bc0839648a61412d3c505f2e6926265ea1b6a904e35892d3ddbc279a89",
    2: "3af4bf4fe27904a85158658d9e8d6bf8345f5aef05d61d122ba5811aca128525",
    3: "46c10aa14993ad23e9b76d604cce2c309c68888156c88997e4c29d06ae461ea7",
    4: "025fe473743aba320713e611b843944f4bd477e14927e7964a5a43ecd3d9a1a5",
    5: "73319739f45947c3e1647b26bb1588c3c2fb73f711aa246f45a4930a6d48cc7d",
    6: "0eb6f15dded4945ca5a338af73841869f664a3f4237ba6e1531b6bd854714bc7",
    7: "ded70e8a7d30804f3975b594a38915967ca608e2a049c650ec90bc1411954a72",
    8: "97a210804ee6f1b056d317569ff30decb58a91cd8ed00b7939d0c48ab7081409",
    9: "3c5ec7022798ec4139e3bef7fdf55e3274e73a9c3e35134a13201155cd8496e2",
    10: "98bb64448e91d315b7e0f74ba1814ccc17fb2e4148580d9b15b7f4f0b364d423",
    11: "febcb22b5e2502895f1b2b458b266be216fcf3ee2fd43e05fb71d4c305721956",
    12: "eb766adb556076c6150586e2088aadd4197959c355bdcdcb67ce822a1d7d3f46",
    13: "6e8e689b24414409cce952dcda4767eac093dd1341a4a75ad2e8eacd18e39b26",
    14: "418392d64e275c49a89121d856a517ff602c61aab2d9e2d7d0021a702e814093",
    15: "b1e52fcbd7fbca76084dc6c515e31ffd91b0b9bf5f99ee9cfa0840982e04d5fc",
    16: "b958e8a7de68066ab539543e1adb9016b1dde39fbea7815be9cbf8be90edc74b",
    17: "421cf53aa65351c6f48f96bee1d73e0c23410ca342c4f6b9b0e4a8e6ac9ab1c2",
    18: "97a8683db6afa969a9ad272c06456a3656ad852c49cd419c81b6afe01cf5c3b1",
    19: "5219aec68ab6dc39411e5939f4aca087ed3e583e02d844603042a9a32eb4466a",
    20: "39ca977515edd37fbdda2aff314d59ad5540fda57a510782155cb42fc70fceaf",
    21: "a34c7f9fa41b1ac2a6956641e67a9d7cfbe26af819dbf694fab384b6e84c7bdf",
    22: "c68e35522fadbb9b2e70ca37e7bbf0f1ec4f4487026c53242423b2fe85f36cf3",
    23: "d9f88ff590fd4231ce52ead42389cc5a9b355860227bb4dc166f152ed6888331",
    24: "f7fdcde6b11a4e9613be44b1c3c2ab22a0ad60cf568c8e840b98037bc9a616c8",
    25: "350411871b43cbfb6d3fabb0ebdcf21fbc14516e27e910c8710556618411e365",
    26: "8bcd8d25d4bd7cd84009409b40cc113722a780748022bf1d4995c151ff99b862",
    27: "7550b9f7927b9b99aea03b30baff2699ae13dcc572b609838e805d886be38ed1",
    28: "79a83835c5ea05e142a8152286e2a90f7e353671eab447e64d357de80af4dc6f",
    29: "be1fa43acb7f908a2c3e0d17833095296c3ac04f166308cde955ae8538cb5c52",
    30: "ae4f88e142cd3ced9b392c05e823413cad47135af63505c9e5e02d65843caea6",
    31: "811366a0985137c83c223b58cf126aeec2f88c30b8a04ab043e7a455e36fff4d",
    32: "e3c0f0ec17ac61e737cb5c5b661871c26f9387593b3701609bf662edfb3eeb7c",
    33: "e39cb2fbeabaa1a097bc9f1a9b6366e95bfb0792dc72d3de760f1a91e38cd80a",
    34: "5fa873276371072787ebd0d2f557f6117ebe2a25b9601f33539be80b39d922e2",
    35: "6f73b4eac23565223269b65885ff0c554ed9ace3e73f903c7bf5d20a00ede9db",
    36: "3874250b58bd1dbb6d6e6253d2505c8e45b9b327f25743934dd1ef2920cc504e",
    37: "224b5734ce79b6fd4020af9494e5d040f8b8bd83406134662ed989d1e0ad09ab",
    38: "ff039eb3387a6152c0ab08b5a468afdde7a3eb37483c5c28a1800ee01b984bbc",
    39: "c178e2995a5ade3224a1cbd7448a8095930cdecec93b7ec21cc32d82af8f911a",
    40: "701727ed38cb4d5df9a71c55c4999ee5da5e5c98a8d9587246bad4f7af9a342b",
    41: "5ce68301fb3891ec4514941eb21a86c6bc60285a72f4109d0ca34a03e22f4d86",
    42: "f8fea3c3774c247f9c540e06a44eeff6fc0ced8d9ee7b536d3183359cf0f84c1",
    43: "6ce975dca2246409ed89aaeb02003728693dbec287ba54ccece1074d659b93a0",
    44: "78f6c9e8e62f8c010dd8e843c26fef29488c410d4b1ef9fa5f4e636781d6e3bc",
    45: "5f62e6d0812e477ffed38759943f9bb6fb60acf5ca2526b5c3a9aa96411bfa12",
}
ALL = [migration.version for migration in list_migrations()]


def test_released_migrations_never_change():
    hashes = {migration.version: migration.sha256 for migration in list_migrations()}

    assert hashes == RELEASED


def test_versions_count_from_one_without_gaps():
    assert [number + 1 for number in range(len(ALL))] == ALL


@pytest.mark.parametrize("migration", list_migrations(), ids=lambda found: found.description)
def test_migration_has_the_four_line_header(migration):
    header = migration.sql.split("\n\n")[0]

    assert header.startswith(f"-- {migration.version:04d} · ")
    assert [line.split(":")[0] for line in header.splitlines()[2:6]] == [
        "-- Why",
        "-- Reads",
        "-- Locks",
        "-- Undo",
    ]


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
    results: list[list[int]] = []

    def run() -> None:
        with psycopg.connect(database) as connection:
            results.append(migrate(connection))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(version for result in results for version in result) == ALL


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


def test_an_older_catalog_asks_for_init(catalog: Database):
    catalog.execute("DELETE FROM pgtrickle.pgt_schema_version WHERE version > 1")

    with pytest.raises(CatalogMissingError):
        check_version(catalog)


def test_a_catalog_with_another_hash_is_refused(catalog: Database):
    catalog.execute("UPDATE pgtrickle.pgt_schema_version SET sha256 = 'x' WHERE version = 2")

    with pytest.raises(CatalogCorruptError, match="migration 2"):
        migrate(catalog)


def test_a_stranger_may_not_read_the_catalog(catalog: Database, ordinary: Database):
    with pytest.raises(PrivilegeError):
        check_version(ordinary)
