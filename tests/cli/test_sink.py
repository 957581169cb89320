"""``pgtrickle sink`` and the options of ``create`` and ``alter`` that belong to it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.cli.lake.sink import sink_line
from pgtrickle.model.lake.sink import DeliveryStatus, FailingSink, SinkNews
from pgtrickle.model.text.names import QualifiedName
from tests.cli.conftest import CommandLine

QUERY = "SELECT id, price FROM items WHERE price < 10"


@pytest.fixture
def cheap(cli: CommandLine, user: Connection[TupleRow], tmp_path: Path) -> CommandLine:
    path = ("--sink", "ducklake", "--ducklake-sink-path", str(tmp_path / "lake"))
    assert cli("create", "cheap", "--query", QUERY, *path).exit_code == 0
    return cli


def test_lists_of_the_lake_say_when_there_is_nothing_to_list(cli: CommandLine) -> None:
    assert cli("sink", "status").stdout == "no copies in the lake\n"
    assert cli("lake", "list").stdout == "no attached lake tables\n"
    assert cli("lake", "show").stdout == "there is no lake yet\n"


def test_status_of_a_copy_that_is_up_to_date(cheap: CommandLine) -> None:
    answer = cheap("sink", "status", "--check", "--json")

    assert answer.exit_code == 0
    [found] = answer.json["sinks"]
    assert (found["stream_table"], found["lake_table"]) == ("public.cheap", "main.cheap")
    assert (found["status"], found["deliveries"]) == ("DELIVERED", 1)
    assert cheap("sink", "status").stdout.startswith("public.cheap -> main.cheap: DELIVERED (")


def test_rows_of_the_past_are_shown(cheap: CommandLine, user: Connection[TupleRow]) -> None:
    [(first,)] = user.execute("SELECT max(snapshot_id) FROM ducklake.ducklake_snapshot").fetchall()
    user.execute("INSERT INTO items VALUES (3, 1.5), (4, 2)")
    cheap("refresh", "cheap")

    told = cheap("show", "cheap", "--as-of", str(first)).stdout
    shown = cheap("show", "cheap", "--as-of", str(first + 1), "--limit", "2", "--json").json
    refused = cheap("show", "cheap", "--as-of", "1999-12-31", "--json")

    assert [line.split() for line in told.splitlines()[:3:2]] == [["id", "price"], ["1", "5.00"]]
    assert f"public.cheap as of snapshot {first} of the lake, " in told
    assert told.endswith(": 1 rows\n")
    assert (len(shown["rows"]), shown["complete"]) == (2, False)
    assert set(shown["rows"][0]) == {"id", "price"}
    assert cheap("show", "cheap", "--as-of", "9999-12-31", "--columns", "price").exit_code == 0
    assert (refused.exit_code, refused.error["code"]) == (1, "ST704")


def test_copy_that_fails_is_told_and_retried(
    cheap: CommandLine, user: Connection[TupleRow], tmp_path: Path
) -> None:
    (tmp_path / "lake").rename(tmp_path / "aside")
    (tmp_path / "lake").write_text("not a directory")
    user.execute("UPDATE items SET price = 1")
    assert cheap("refresh", "cheap").exit_code == 0
    failed = cheap("sink", "status", "--check")
    assert (failed.exit_code, "FAILED_RETRYABLE" in failed.stdout) == (1, True)
    assert "ST702" in failed.stdout
    assert "failing since" in failed.stdout
    checks = {one["check_name"]: one for one in cheap("status", "--json").json["checks"]}
    assert (checks["sinks"]["severity"], "ST702" in checks["sinks"]["detail"]) == ("WARNING", True)
    told = cheap("errors", "cheap").stdout
    assert "ST702: delivery to the lake table" in told
    console = cheap("run", "--once").stderr
    assert "public.cheap: could not be delivered to the lake (" in console
    lines = [json.loads(one) for one in cheap("run", "--once", "--json").stdout.splitlines()]
    assert [one["event"] for one in lines] == ["sink_failed"]
    assert cheap("sink", "retry", "cheap").exit_code == 1

    (tmp_path / "lake").unlink()
    (tmp_path / "aside").rename(tmp_path / "lake")

    assert cheap("sink", "retry", "cheap", "--json").json["status"] == "DELIVERED"
    assert cheap("sink", "status", "--check").exit_code == 0


def test_console_of_a_daemon_tells_of_failure_and_recovery() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    name = QualifiedName("public", "cheap")
    sink = FailingSink(
        name, name, DeliveryStatus.FAILED_RETRYABLE, 3, noon, noon, "ST702: full", "Make room."
    )

    failed = sink_line(SinkNews(sink))

    assert failed.startswith("public.cheap: could not be delivered to the lake (3 attempts since")
    assert failed.endswith("ST702: full\n  hint: Make room. It is tried again by itself.")
    given_up = replace(sink, status=DeliveryStatus.FAILED_PERMANENT, next_attempt_at=None)
    assert "given up" in sink_line(SinkNews(given_up))
    assert "pgtrickle sink retry public.cheap" in sink_line(SinkNews(given_up))
    assert "up to date again" in sink_line(SinkNews(sink, recovered=True))


def test_copy_is_turned_off_and_on(cheap: CommandLine) -> None:
    assert cheap("alter", "cheap", "--sink", "none").exit_code == 0
    assert cheap("sink", "status", "--json").json == {"sinks": []}
    assert cheap("sink", "retry", "cheap", "--json").error["code"] == "ST703"

    assert cheap("alter", "cheap", "--sink", "ducklake").exit_code == 0

    [found] = cheap("sink", "status", "--json").json["sinks"]
    assert found["status"] == "DELIVERED"


def test_sink_of_another_kind_is_told(cli: CommandLine, user: Connection[TupleRow]) -> None:
    answer = cli("create", "cheap", "--query", QUERY, "--sink", "delta", "--json")

    assert (answer.exit_code, answer.error["code"]) == (1, "ST703")
