"""``pgtrickle sink`` and the options of ``create`` and ``alter`` that belong to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine

QUERY = "SELECT id, price FROM items WHERE price < 10"


@pytest.fixture
def cheap(cli: CommandLine, user: Connection[TupleRow], tmp_path: Path) -> CommandLine:
    path = ("--sink", "ducklake", "--ducklake-sink-path", str(tmp_path / "lake"))
    assert cli("create", "cheap", "--query", QUERY, *path).exit_code == 0
    return cli


def test_status_of_a_copy_that_is_up_to_date(cheap: CommandLine) -> None:
    answer = cheap("sink", "status", "--check", "--json")

    assert answer.exit_code == 0
    [found] = answer.json
    assert (found["stream_table"], found["lake_table"]) == ("public.cheap", "main.cheap")
    assert (found["status"], found["deliveries"]) == ("DELIVERED", 1)
    assert cheap("sink", "status").stdout.startswith("public.cheap -> main.cheap: DELIVERED (")


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
    assert cheap("sink", "retry", "cheap").exit_code == 1

    (tmp_path / "lake").unlink()
    (tmp_path / "aside").rename(tmp_path / "lake")

    assert cheap("sink", "retry", "cheap", "--json").json["status"] == "DELIVERED"
    assert cheap("sink", "status", "--check").exit_code == 0


def test_copy_is_turned_off_and_on(cheap: CommandLine) -> None:
    assert cheap("alter", "cheap", "--sink", "none").exit_code == 0
    assert cheap("sink", "status", "--json").json == []
    assert cheap("sink", "retry", "cheap", "--json").error["code"] == "ST703"

    assert cheap("alter", "cheap", "--sink", "ducklake").exit_code == 0

    [found] = cheap("sink", "status", "--json").json
    assert found["status"] == "DELIVERED"


def test_sink_of_another_kind_is_told(cli: CommandLine, user: Connection[TupleRow]) -> None:
    answer = cli("create", "cheap", "--query", QUERY, "--sink", "delta", "--json")

    assert (answer.exit_code, answer.error["code"]) == (1, "ST703")
