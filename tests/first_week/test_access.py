"""Getting in: a database that knows nothing, roles that may little, names that are misspelled."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.catalog.databases import ordinary_role
from tests.first_week.newcomer import Newcomer
from tests.first_week.test_status import LISTINGS


@pytest.fixture
def colleague(database: str, arrival: Newcomer) -> Iterator[str]:
    """Yield another ordinary role."""
    with ordinary_role(database) as role:
        yield role


@pytest.mark.parametrize("level", ["reader", "operator"])
def test_access_opens_the_command_line(shop: Newcomer, colleague: str, level: str):
    shop.psql(f"SELECT pgtrickle.grant_access('{colleague}', '{level}');")
    dsn = make_conninfo(shop.dsn, user=colleague)

    for command in (("list",), ("history", "revenue"), ("show", "revenue")):
        seen = shop.type(*command, PGTRICKLE_DSN=dsn)

        assert seen.status == 0, seen.err
        assert "revenue" in seen.out
    for command in LISTINGS:  # some run functions, for which the guest must trust their owner
        seen = shop.type(*command, PGTRICKLE_DSN=dsn, PGTRICKLE_TRUSTED_OWNER=shop.role)
        assert "error ST" not in seen.err, (command, seen.err)
        assert "permission denied" not in seen.out + seen.err, command


def test_doctor_says_what_libpq_said_and_which_right_is_missing(arrival: Newcomer, colleague: str):
    stranger = arrival.type("doctor", PGTRICKLE_DSN=make_conninfo(arrival.dsn, user="nobody_x"))
    poor = arrival.type("doctor", PGTRICKLE_DSN=make_conninfo(arrival.dsn, user=colleague))

    assert (stranger.status, poor.status) == (1, 1)
    assert 'role "nobody_x" does not exist' in " ".join(stranger.out.split())
    assert "GRANT CREATE" in " ".join(poor.out.split())


def test_right_that_a_source_lacks_comes_with_its_grant(newcomer: Newcomer, database: str):
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CREATE TABLE secrets (id int PRIMARY KEY)")

    refused = newcomer.type("create", "copy", "--query", "SELECT id FROM secrets")

    assert refused.status == 1
    assert "GRANT SELECT" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    "command",
    [
        ("doctor",),
        ("list",),
        ("create", "one", "--query", "SELECT 1 AS one"),
        ("migrate",),
        ("run", "--once"),
    ],
    ids=lambda command: command[0],
)
def test_nothing_but_init_creates_a_catalog(arrival: Newcomer, command: tuple[str, ...]):
    looked = arrival.type(*command)

    assert looked.status == 1
    assert "pgtrickle init" in " ".join((looked.out + looked.err).split())
    assert arrival.rows("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pgtrickle%'") == []


def test_without_a_database_the_private_server_is_named_and_not_made(newcomer: Newcomer):
    listed = newcomer.run("list", PGTRICKLE_DSN="")

    assert ".pgtrickle" in listed.err
    assert "PGTRICKLE_DSN" in listed.err
    assert not (newcomer.directory / ".pgtrickle").exists()


def test_misspelled_settings_are_told(newcomer: Newcomer):
    told = newcomer.type("doctor", PGTRICKLE_LEASE_SECOND="5")

    assert "PGTRICKLE_LEASE_SECOND" in told.out + told.err
