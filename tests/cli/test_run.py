"""``pgtrickle run``: one line a refresh, and a signal ends it well."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine


@pytest.fixture
def due(cli: CommandLine, cheap: str, user: Connection[TupleRow]) -> str:
    """Make the stream table due, with one change to pick up."""
    user.execute("INSERT INTO items VALUES (3, 1)")
    user.execute("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval")
    return cheap


def test_pass_prints_one_line_a_refresh(cli: CommandLine, due: str) -> None:
    answer = cli("run", "--once")

    assert answer.exit_code == 0
    assert answer.stdout.startswith(f"{due}: DIFFERENTIAL +1 -0 in ")
    assert len(answer.stdout.splitlines()) == 1


def test_pass_prints_one_json_line_a_refresh(cli: CommandLine, due: str) -> None:
    [line] = cli("run", "--once", "--json").stdout.splitlines()

    assert json.loads(line)["rows_inserted"] == 1


def test_pass_without_changes_is_silent(cli: CommandLine, due: str) -> None:
    cli("refresh", due)

    answer = cli("run", "--once")

    assert (answer.exit_code, answer.stdout, answer.stderr) == (0, "", "")


def test_pass_executes_what_sql_asks_for(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    user.execute(
        "SELECT pgtrickle.submit_request('create_stream_table',"
        """ '{"name": "dear", "query": "SELECT id FROM items WHERE price > 10"}')"""
    )

    cli("run", "--once")

    assert user.execute("SELECT status FROM pgtrickle.requests").fetchall() == [("COMPLETED",)]
    assert user.execute("TABLE dear").fetchall() == [(2,)]
    # Whoever asks after the end of the process is told so at once.
    assert user.execute("SELECT pgtrickle.is_served()").fetchall() == [(False,)]


def test_failure_in_a_pass_is_shown_and_exits_1(
    cli: CommandLine, due: str, user: Connection[TupleRow]
) -> None:
    user.execute("DROP TABLE items CASCADE")

    answer = cli("run", "--once")

    assert answer.exit_code == 1
    assert answer.stderr.startswith("error ST301: ")
    assert f"{due}: next attempt in 1 s" in answer.stderr


def test_failure_as_a_json_line(cli: CommandLine, due: str, user: Connection[TupleRow]) -> None:
    user.execute("DROP TABLE items CASCADE")

    [line] = cli("run", "--once", "--json").stdout.splitlines()

    failure = json.loads(line)
    assert set(failure) == {"stream_table", "retry_in_seconds", "suspended", "error"}
    assert (failure["stream_table"], failure["suspended"]) == (due, None)


def test_last_line_before_a_suspension_says_so_and_how_to_resume(
    cli: CommandLine, due: str, user: Connection[TupleRow]
) -> None:
    user.execute("DROP TABLE items CASCADE")

    answer = cli(
        "run", "--once", PGTRICKLE_MAX_CONSECUTIVE_ERRORS="1", PGTRICKLE_SUSPEND_AFTER_SECONDS="0"
    )

    last = answer.stderr.splitlines()[-1]
    assert last.startswith(f"{due}: SUSPENDED because of ST301; it is tried again in 60 s")
    assert last.endswith(f"pgtrickle alter {due} --status ACTIVE")
    assert "next attempt" not in answer.stderr
    assert f"pgtrickle alter {due} --status ACTIVE" in cli("errors", due).stdout
    assert "SUSPENDED because of ST301" in cli("show", due).stdout
    assert cli("show", due, "--json").json["suspended_by"] == "ST301"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_loop_well(database: str, number: signal.Signals) -> None:
    source = Path(__file__).parents[2] / "src"
    program = "from pgtrickle.cli.main import app; app(['run'])"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(source), "PGTRICKLE_DSN": database, "PATH": "/usr/bin:/bin"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("keeping stream tables fresh")

        process.send_signal(number)

        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
