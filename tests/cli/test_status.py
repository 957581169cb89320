"""One screen and one exit code: status, health, tree, and what is listed of holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine

SERVED = "INSERT INTO pgtrickle.pgt_request_servers VALUES ('host:1:a', now() + interval '1 hour')"
LEADS = (
    "INSERT INTO pgtrickle.pgt_leader (owner, acquired_at, expires_at)"
    " VALUES ('host:1:a', now(), now() + interval '1 hour')"
)
LIVE = "INSERT INTO pgtrickle.pgt_daemons VALUES (%s, now(), now() + interval '1 hour')"
SECTIONS = {
    "severity", "checks", "daemons", "requests", "stream_tables", "running", "behind", "failing",
    "suspended", "holds", "sinks",
}  # fmt: skip


@pytest.fixture
def well(cli: CommandLine, cheap: str, user: Connection[TupleRow]) -> CommandLine:
    """Return a command line on a database where all is well: two daemons live, one leads."""
    user.execute(SERVED)
    user.execute(LEADS)
    for daemon in ("host:1:a", "host:2:b"):
        user.execute(LIVE, [daemon])
    return cli


def test_status_without_a_daemon_is_critical(cli: CommandLine, cheap: str) -> None:
    answer = cli("status", "--json")

    assert (answer.exit_code, answer.json["severity"]) == (4, "CRITICAL")
    assert set(answer.json) == SECTIONS
    assert answer.json["daemons"] == []
    assert cli("health").exit_code == 4


def test_status_of_an_empty_database_is_well(cli: CommandLine) -> None:
    assert (cli("init").exit_code, cli("status").exit_code, cli("health").exit_code) == (0, 0, 0)


def test_status_names_the_leader_and_who_stands_by(well: CommandLine) -> None:
    answer = well("status", "--json")

    assert (answer.exit_code, answer.json["severity"]) == (0, "OK")
    assert [(one["daemon"], one["leads"]) for one in answer.json["daemons"]] == [
        ("host:1:a", True),
        ("host:2:b", False),
    ]
    shown = well("status")
    assert (shown.exit_code, shown.stdout.splitlines()[0]) == (0, "OK")
    assert "host:2:b: stands by" in shown.stdout


def test_status_shows_what_runs_and_how_far(
    well: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    user.execute(
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
        " SELECT pgt_id, 'host:1:a', now(), now() + interval '1 hour'"
        " FROM pgtrickle.pgt_stream_tables"
    )
    user.execute(
        "INSERT INTO pgtrickle.pgt_refresh_progress"
        " SELECT pgt_id, 'group_1', 1200, 30, now(), now()"
        " FROM pgtrickle.pgt_stream_tables"
    )
    user.execute(
        "INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES ('diamond_groups', '{}')"
    )

    answer = well("status", "--json").json

    [running] = answer["running"]
    assert (running["stream_table"], running["stage"], running["rows_read"]) == (
        cheap, "group_1", 1200,
    )  # fmt: skip
    assert answer["requests"]["queued"] == 1
    assert "group_1: 1,200 rows read, 30 staged" in well("status").stdout


def test_status_warns_of_what_is_behind_failing_and_held(
    well: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    user.execute(
        "UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - interval '1 hour',"
        " consecutive_errors = 2, last_error_message = E'ST401: first\nsecond'"
    )
    well("scheduler", "pause", "cheap")

    answer = well("status", "--json")

    assert (answer.exit_code, answer.json["severity"]) == (3, "WARNING")
    for section in ("behind", "failing", "holds"):
        assert [one["stream_table"] for one in answer.json[section]] == [cheap]
    shown = well("status")
    assert "2 errors in a row: ST401" in shown.stdout
    assert not any(line.startswith("second") for line in shown.stdout.splitlines())
    assert well("health", "--json").exit_code == 3


def test_many_fit_on_one_screen(well: CommandLine, cheap: str) -> None:
    for number in range(12):
        query = ("--query", "SELECT id FROM items", "--no-initialize")
        well("create", f"t_{number}", *query, "--local")  # nobody is behind the signs of life
    well("scheduler", "drain", "--timeout", "5")

    shown = well("status").stdout

    assert len(shown.splitlines()) < 25
    assert "and 5 more: pgtrickle status --json" in shown
    assert len(well("status", "--json").json["holds"]) == 13


def test_suspended_is_critical(well: CommandLine, cheap: str) -> None:
    well("alter", "cheap", "--status", "suspended", "--local")

    answer = well("status", "--json")

    assert (answer.exit_code, answer.json["severity"]) == (4, "CRITICAL")
    assert [one["stream_table"] for one in answer.json["suspended"]] == [cheap]
    assert answer.json["failing"] == answer.json["behind"] == []


def test_status_that_cannot_be_found_out_exits_1(cli: CommandLine) -> None:
    answer = cli("status", "--dsn", "host=/nowhere dbname=none", "--json")

    assert (answer.exit_code, answer.error["code"][:2]) == (1, "ST")


def test_tree_is_drawn(cli: CommandLine, cheap: str) -> None:
    cli("create", "pairs", "--query", "SELECT i.id FROM items AS i JOIN cheap AS c ON c.id = i.id")

    drawn = cli("tree").stdout.splitlines()

    assert drawn == [
        "public.pairs (ACTIVE, AUTO)",
        "├── public.cheap (ACTIVE, AUTO)",
        "│   └── public.items",
        "└── public.items",
    ]
    assert [one["depth"] for one in cli("tree", "--json").json["nodes"]] == [0, 1, 2, 1]


def test_gates_watermarks_fuses_and_groups_are_listed(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    assert cli("gate", "list").stdout == "no gates\n"
    assert cli("watermark", "status").stdout == "no watermarks\n"
    assert cli("group", "list").stdout == "no refresh groups\n"
    user.execute("CREATE TABLE others (id int)")
    cli("create", "dear", "--query", "SELECT id FROM items WHERE price > 10")
    cli("gate", "close", "items")
    cli("watermark", "group", "day", "items", "others")
    cli("watermark", "advance", "items", "2026-01-31T18:00:00+00:00")
    cli("fuse", "set", "cheap", "on", "--ceiling", "2000")
    cli("group", "create", "prices", "cheap", "dear")

    [gate] = cli("gate", "list", "--json").json["gates"]
    assert (gate["source_table"], gate["gated"]) == ("public.items", True)
    assert gate["affected_stream_tables"] == [cheap, "public.dear"]
    assert "closed" in cli("gate", "list").stdout
    marks = cli("watermark", "status", "--json").json
    assert [one["source_table"] for one in marks["watermarks"]] == ["public.items"]
    assert [(one["group_name"], one["aligned"]) for one in marks["groups"]] == [("day", True)]
    assert "in step" in cli("watermark", "status").stdout
    fuses = {one["stream_table"]: one for one in cli("fuse", "status", "--json").json["fuses"]}
    assert (fuses[cheap]["fuse_state"], fuses[cheap]["fuse_ceiling"]) == ("armed", 2000)
    assert "2,000" in cli("fuse", "status").stdout
    [group] = cli("group", "list", "--json").json["groups"]
    assert group["members"] == [cheap, "public.dear"]
    assert "public.dear" in cli("group", "list").stdout


def test_create_or_replace(cli: CommandLine, user: Connection[TupleRow]) -> None:
    def create(query: str, *options: str) -> str:
        answer = cli("create", "t", "--or-replace", "--query", query, *options, "--json")
        assert answer.exit_code == 0, answer.stdout
        return str(answer.json["outcome"])

    cheap, dear = "SELECT id FROM items WHERE price < 10", "SELECT id FROM items WHERE price > 10"

    assert create(cheap) == "created"
    assert create(cheap) == "unchanged"
    assert create(cheap, "--schedule", "5m") == "altered"
    assert create(dear, "--schedule", "5m") == "replaced"
    assert user.execute("SELECT id FROM t").fetchall() == [(2,)]


def test_create_or_replace_with_a_copy_in_the_lake(
    cli: CommandLine, user: Connection[TupleRow], tmp_path: Path
) -> None:
    copy = ["--sink", "ducklake", "--ducklake-sink-path", str(tmp_path)]
    asked = ["create", "t", "--or-replace", "--query", "SELECT id FROM items", "--json"]

    outcomes = [cli(*asked, *options).json["outcome"] for options in ([], copy, copy, [])]

    assert outcomes == ["created", "altered", "unchanged", "unchanged"]
    assert cli("sink", "status", "--json").json["sinks"][0]["lake_table"] == "main.t"


def test_subscribe_prints_as_it_comes(cheap: str, cli: CommandLine, database: str) -> None:
    program = "from pgtrickle.cli.main import app; app(['subscribe', 'cheap', '--json'])"
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source), "PGTRICKLE_DSN": database}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline().startswith("listening")
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("SELECT pg_notify('pg_trickle_refresh', '{\"name\": \"other\"}')")
            connection.execute("INSERT INTO items VALUES (7, 7)")
        cli("refresh", "cheap")
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        ended = process.wait(timeout=60)

    assert '"name": "public.cheap"' in line
    assert '"inserted_count": 1' in line
    assert ended == 0


def test_subscribe_ends_in_time_and_knows_names(cli: CommandLine, cheap: str) -> None:
    began = time.monotonic()

    assert cli("subscribe", "--seconds", "0.2").exit_code == 0
    assert time.monotonic() - began < 60
    assert cli("subscribe", "nothing", "--seconds", "0.2", "--json").error["code"] == "ST201"


def test_disk_shows_sums_and_every_table(cli: CommandLine, cheap: str) -> None:
    sums, tables, document = cli("disk"), cli("disk", "--all"), cli("disk", "--json").json

    assert {"contents", "buffer", "history"} <= {one["kind"] for one in document["tables"]}
    assert document["bytes"] == sum(one["bytes"] for one in document["tables"])
    assert "history_retention_days" in sums.stdout
    assert cheap in tables.stdout
    assert sums.stdout.endswith(" in all\n")
