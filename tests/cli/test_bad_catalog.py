"""A catalog that cannot be used: a coded error that says what to do, and nothing is changed."""

from __future__ import annotations

import re

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from pgtrickle.catalog.migrate import FILES
from pgtrickle.model.version import VERSION
from tests.catalog.databases import ordinary_role
from tests.catalog.versions import LATER, NEXT, contents, publish
from tests.cli.conftest import CommandLine
from tests.fixtures.restartable import OwnServer

COMMANDS = [
    ("list",),
    ("init",),
    ("migrate",),
    ("create", "t", "--query", "SELECT id FROM items"),
    ("run", "--once"),
]
IDS = [one[0] for one in COMMANDS]
NEWER = {
    "tables": f"INSERT INTO pgtrickle.pgt_schema_version VALUES ({NEXT}, now(), 'later', 'x')",
    "functions": "UPDATE pgtrickle.pgt_sql_api SET package = '99.1' WHERE name = '10_sources'",
}


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
@pytest.mark.parametrize("newer", NEWER)
def test_catalog_of_a_newer_version_is_refused(
    cli: CommandLine, user: Connection[TupleRow], newer: str, command: tuple[str, ...]
):
    user.execute(NEWER[newer].encode())
    before = contents(user)

    refused = cli(*command, "--json")

    assert (refused.exit_code, refused.error["code"]) == (1, "ST204")
    assert "Install the version" in refused.error["hint"]
    assert contents(user) == before


def test_version_shows_what_a_database_says_or_why_it_says_nothing(
    cli: CommandLine, user: Connection[TupleRow]
):
    found = cli("version", "--json").json
    assert found["pgtrickle"] == found["database"]["package"] == VERSION
    assert found["database"]["catalog"] == NEXT - 1
    assert f"catalog         {NEXT - 1}" in cli("version").stdout

    user.execute(NEWER["tables"].encode())

    refused = cli("version", "--json")
    assert (refused.exit_code, refused.json["database"]["error"]["code"]) == (0, "ST204")
    assert f"the catalog has version {NEXT}" in cli("version").stderr


def test_dry_run_says_what_it_locks_and_changes_nothing(
    cli: CommandLine, user: Connection[TupleRow], monkeypatch: pytest.MonkeyPatch
):
    assert cli("migrate", "--dry-run").stdout.startswith("catalog ready")
    publish(
        monkeypatch,
        "-- Why:   to know more.\n-- Reads: nothing.\n-- Locks: pgt_daemons.\n\n" + LATER,
    )
    user.execute(
        "INSERT INTO pgtrickle.pgt_leader VALUES (true, 'h:1', now(), now() + '1h'::interval)"
    )
    before = contents(user)

    told, document = cli("migrate", "--dry-run").stdout, cli("migrate", "--dry-run", "--json").json

    for line in (
        f"the catalog has version {NEXT - 1}, this package {NEXT}",
        "  why:   to know more.",
        "the daemon h:1 would step down; then start this version",
        "nothing was changed",
    ):
        assert line in told.splitlines()
    assert re.search(
        rf"AccessExclusiveLock on pgtrickle.pgt_daemons .*from: {NEXT:04d} later", told
    )
    assert [one["name"] for one in document["steps"]] == [f"{NEXT:04d} later", FILES]
    assert (document["rehearsed"], document["daemon"]) == (True, "h:1")
    assert contents(user) == before


def test_reader_is_told_of_a_newer_catalog_too(cli: CommandLine, user: Connection[TupleRow]):
    assert cli.dsn is not None
    with ordinary_role(cli.dsn) as reader:
        user.execute("SELECT pgtrickle.grant_access(%s, 'reader')", [reader])
        user.execute(NEWER["tables"].encode())

        refused = cli("list", "--json", PGTRICKLE_DSN=make_conninfo(cli.dsn, user=reader))

        assert (refused.exit_code, refused.error["code"]) == (1, "ST204")


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
def test_role_without_rights_is_told_whom_to_ask(
    cli: CommandLine, user: Connection[TupleRow], command: tuple[str, ...]
):
    assert cli.dsn is not None
    before = contents(user)
    with ordinary_role(cli.dsn) as role:
        refused = cli(*command, "--json", PGTRICKLE_DSN=make_conninfo(cli.dsn, user=role))

    assert (refused.exit_code, refused.error["code"]) == (1, "ST215")
    assert "grant_access" in refused.error["hint"]
    assert contents(user) == before


def test_standby_shows_and_refuses_to_write(cli: CommandLine, own_server: OwnServer):
    with psycopg.connect(own_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE TABLE items AS SELECT 1 AS id")
    assert cli("init", PGTRICKLE_DSN=own_server.dsn).exit_code == 0
    with own_server.copy() as standby:
        standby.start()

        def ask(*command: str) -> tuple[int, str | None]:
            answer = cli(*command, "--json", PGTRICKLE_DSN=standby.dsn)
            return answer.exit_code, answer.json.get("error", {}).get("code")

        assert ask("list") == (0, None)
        for command in COMMANDS[1:]:
            assert ask(*command) == (1, "ST504")


@pytest.mark.parametrize("command", ["init", "migrate"])
@pytest.mark.parametrize(
    ("accident", "code"),
    [
        ("SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())", "ST401"),
        ("SELECT 1 / 0", "ST407"),
    ],
    ids=["killed", "failed"],
)
def test_migration_that_ends_half_way_changes_nothing_and_can_be_repeated(
    cli: CommandLine,
    user: Connection[TupleRow],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    accident: str,
    code: str,
):
    add = "ALTER TABLE pgtrickle.pgt_daemons ADD COLUMN shoe_size integer"
    before = contents(user)
    with monkeypatch.context() as broken:
        publish(broken, f"{add}; {accident};")
        refused = cli(command, "--json")

    assert (refused.exit_code, refused.error["code"]) == (1, code)
    assert refused.error["hint"]
    assert contents(user) == before
    publish(monkeypatch, f"{add};")
    assert cli(command, "--json").exit_code == 0
    assert user.execute("SELECT count(shoe_size) FROM pgtrickle.pgt_daemons").fetchall() == [(0,)]
