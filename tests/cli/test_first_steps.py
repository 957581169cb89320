"""The first commands on a database: what they make, say, wait for, and who may give them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from pgtrickle.cli.setup import Setup
from tests.catalog.databases import ordinary_role
from tests.cli.conftest import CommandLine

SCHEMAS = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pgtrickle%'"
LOOKING = [
    ("list",), ("show", "t"), ("history",), ("errors", "t"), ("explain", "t"), ("config",),
    ("scheduler", "holds"), ("cdc", "health"), ("sink", "status"), ("lake", "list"),
    ("refresh", "t"), ("validate", "SELECT 1"),
]  # fmt: skip


@pytest.fixture
def admin(database: str) -> Iterator[Connection[TupleRow]]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def first_admin(empty_database: str) -> Iterator[Connection[TupleRow]]:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def role(empty_database: str) -> Iterator[str]:
    with ordinary_role(empty_database) as name:
        yield name


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_nothing_is_made_in_a_database_that_was_never_initialised(
    first_cli: CommandLine, first_admin: Connection[TupleRow], command: tuple[str, ...]
) -> None:
    answer = first_cli(*command, "--json")

    assert answer.error["code"] == "ST203"
    assert "pgtrickle init" in answer.error["hint"]
    assert first_admin.execute(SCHEMAS).fetchone() == (0,)


def test_doctor_makes_nothing_and_says_what_is_missing(
    first_cli: CommandLine, first_admin: Connection[TupleRow]
) -> None:
    checks = {one["name"]: one for one in first_cli("doctor", "--json").json["checks"]}

    assert not checks["catalog"]["ok"]
    assert "pgtrickle init" in checks["catalog"]["hint"]
    assert checks["privileges"]["ok"]
    assert checks["postgresql"]["ok"]
    assert first_admin.execute(SCHEMAS).fetchone() == (0,)
    assert first_cli("init").exit_code == 0
    assert first_cli("list").stdout == "no stream tables\n"


@pytest.mark.parametrize("command", ["list", "doctor"])
def test_private_server_is_named_and_not_made_to_be_looked_at(tmp_path: Path, command: str) -> None:
    home = tmp_path / "home"
    cli = CommandLine(setup=Setup())
    answer = cli(command, PGTRICKLE_HOME=str(home))
    told = cli(command, "--json", PGTRICKLE_HOME=str(home))
    silent = cli("--quiet", command, PGTRICKLE_HOME=str(home))
    by_variable = cli(command, PGTRICKLE_HOME=str(home), PGTRICKLE_QUIET="1")

    assert not home.exists()
    assert answer.exit_code == 1
    assert answer.stderr.count(f"using the private server in {home}") == 1
    assert "pgtrickle init" in answer.stdout + answer.stderr
    assert "private server in" not in told.stdout.replace('server in \\"', "")
    assert told.json
    assert "using the private" not in silent.stderr + by_variable.stderr


def test_unknown_names_are_told_of(cli: CommandLine, admin: Connection[TupleRow]) -> None:
    database = admin.info.dbname
    admin.execute(f"ALTER DATABASE {database} SET pg_trickle.cdc_mod = 'wal'".encode())
    answer = cli("list", PGTRICKLE_LEASE_SECOND="5")
    doctor = cli("doctor", "--json", PGTRICKLE_LEASE_SECOND="5").json
    [check] = [one for one in doctor["checks"] if one["name"] == "names of settings"]

    assert "PGTRICKLE_LEASE_SECONDS?" in answer.stderr
    assert not check["ok"]
    assert "PGTRICKLE_LEASE_SECONDS?" in check["detail"]
    assert "pg_trickle.cdc_mode?" in check["detail"]


def test_daemon_tells_of_unknown_names_at_its_start(
    cli: CommandLine, admin: Connection[TupleRow]
) -> None:
    database = admin.info.dbname
    admin.execute(f"ALTER DATABASE {database} SET pg_trickle.cdc_mod = 'wal'".encode())
    plain = cli("run", "--once", PGTRICKLE_LEASE_SECOND="5")
    logged = cli("run", "--once", "--log-format", "json")
    silent = cli("--quiet", "run", "--once")

    assert plain.stderr.count("warning: pg_trickle.cdc_mod is not a setting") == 1
    assert plain.stderr.count("warning: PGTRICKLE_LEASE_SECOND is not a setting") == 1
    assert logged.stderr.count("pg_trickle.cdc_mod is not a setting") == 1
    assert "cdc_mod" not in silent.stderr


def test_known_names_are_not(cli: CommandLine, admin: Connection[TupleRow]) -> None:
    database = admin.info.dbname
    admin.execute(f"ALTER DATABASE {database} SET pg_trickle.request_timeout = 5".encode())
    admin.execute(f"ALTER DATABASE {database} SET pg_trickle.trusted_owner = 'x'".encode())
    answer = cli("doctor", "--json", PGTRICKLE_LEASE_SECONDS="5", PGTRICKLE_HOME="/nowhere")
    [check] = [one for one in answer.json["checks"] if one["name"] == "names of settings"]

    assert check["ok"], check


def test_doctor_repeats_what_the_server_says(database: str) -> None:
    cli = CommandLine(make_conninfo(database, user="nobody_of_this_name"), Setup())
    checks = {one["name"]: one for one in cli("doctor", "--json").json["checks"]}

    assert "nobody_of_this_name" in checks["connection"]["detail"]


def test_doctor_tells_of_missing_rights_with_the_grant_that_helps(
    empty_database: str, role: str, first_admin: Connection[TupleRow]
) -> None:
    cli = CommandLine(make_conninfo(empty_database, user=role), Setup())

    def hints(*names: str) -> list[str]:
        checks = {one["name"]: one for one in cli("doctor", "--json").json["checks"]}
        return [checks[name]["hint"].partition("run: ")[2] for name in names]

    def grant(statement: str) -> None:
        assert statement.startswith("GRANT ")
        first_admin.execute(statement.encode())

    for statement in hints("privileges", "schema of stream tables"):
        grant(statement)
    assert hints("privileges", "schema of stream tables") == ["", ""]
    assert cli("init").exit_code == 0
    first_admin.execute(b"CREATE SCHEMA app; CREATE TABLE app.orders (id int PRIMARY KEY)")
    first_admin.execute(f"GRANT TRIGGER ON app.orders TO {role}".encode())
    create = ("create", "copy", "--query", "SELECT id FROM app.orders", "--no-initialize", "--json")
    for privilege in ("USAGE", "SELECT"):
        error = cli(*create).error
        assert error["code"] == "ST303"
        assert f"GRANT {privilege} ON" in error["hint"]
        grant(error["hint"].partition("run: ")[2])
    assert "error" not in cli(*create).json
    first_admin.execute(f"REVOKE ALL ON SCHEMA app FROM {role}".encode())
    first_admin.execute(f"REVOKE ALL ON app.orders FROM {role}".encode())
    [statements] = hints("sources")
    assert "GRANT USAGE ON SCHEMA" in statements
    assert "GRANT SELECT ON" in statements
    grant(statements)
    assert hints("sources") == [""]


def test_database_that_was_prepared_needs_no_right_to_create_schemas(
    empty_database: str, role: str, first_admin: Connection[TupleRow]
) -> None:
    for schema in ("pgtrickle", "pgtrickle_changes", "pgtrickle_state"):
        first_admin.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {role}".encode())
    cli = CommandLine(make_conninfo(empty_database, user=role), Setup())
    checks = {one["name"]: one for one in cli("doctor", "--json").json["checks"]}

    assert checks["privileges"]["ok"]
    assert "lacks CREATE" in checks["privileges"]["detail"]


@pytest.fixture
def held(cli: CommandLine, admin: Connection[TupleRow], tmp_path: Path) -> str:
    """Make a stream table with a copy in the lake, of which another process has the lease."""
    admin.execute("CREATE TABLE t (id int PRIMARY KEY)")
    lake = ("--sink", "ducklake", "--ducklake-sink-path", str(tmp_path / "lake"))
    assert cli("create", "copy", "--query", "SELECT id FROM t", *lake).exit_code == 0
    admin.execute(
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, token, acquired_at, expires_at)"
        " SELECT pgt_id, 'elsewhere:1:x', 4711, now(), now() + interval '1 hour'"
        " FROM pgtrickle.pgt_stream_tables"
        " ON CONFLICT (pgt_id) DO UPDATE SET owner = excluded.owner, token = excluded.token,"
        " expires_at = excluded.expires_at"
    )
    return "copy"


WORK = [
    ("refresh", "copy"), ("refresh", "--all"), ("verify", "copy"), ("sink", "retry", "copy"),
    ("lake", "maintain"),
]  # fmt: skip


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("command", WORK, ids=" ".join)
def test_commands_wait_while_another_works(
    cli: CommandLine, admin: Connection[TupleRow], command: tuple[str, ...]
) -> None:
    began = time.monotonic()
    at_once = cli(*command, "--no-wait", "--json")
    assert (at_once.exit_code, "ST209" in at_once.stdout) == (1, True)
    assert time.monotonic() - began < 10
    release = "UPDATE pgtrickle.pgt_leases SET expires_at = now()"
    timer = threading.Timer(1.5, admin.execute, [release])
    timer.start()

    answer = cli(*command)
    timer.join()

    assert answer.exit_code == 0, answer
    assert answer.stderr.count("waiting for ") == (command[0] != "lake")


def test_wait_is_bounded_as_that_of_a_call(
    cli: CommandLine, held: str, admin: Connection[TupleRow]
) -> None:
    database = admin.info.dbname
    admin.execute(f"ALTER DATABASE {database} SET pg_trickle.request_timeout = 1".encode())
    answer = cli("refresh", held, "--json")

    assert answer.error["code"] == "ST209"
    assert "PGOPTIONS='-c pg_trickle.request_timeout=3600'" in answer.error["hint"]


def test_wait_is_as_long_as_the_hint_of_the_error_says(cli: CommandLine, held: str) -> None:
    began = time.monotonic()
    answer = cli("refresh", held, "--json", PGOPTIONS="-c pg_trickle.request_timeout=1")

    assert answer.error["code"] == "ST209"
    assert time.monotonic() - began < 60
