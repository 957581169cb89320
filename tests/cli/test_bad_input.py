"""What users get wrong: a coded error with a hint, nothing left behind, the next attempt works."""

from __future__ import annotations

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine

GOOD = "SELECT id FROM items"


@pytest.mark.parametrize(
    ("name", "query", "code"),
    [
        ("t", "SELECT id FROM nowhere", "ST105"),
        ("t", "SELECT nothing FROM items", "ST105"),
        ("t", "SELECT id FORM items", "ST101"),
        ("t", "SELECT random() AS r FROM items", "ST103"),
        ("t", "SELECT relname FROM pg_catalog.pg_class", "ST104"),
        ("items", GOOD, "ST202"),
        ("nowhere.t", GOOD, "ST208"),
        ("a.b.c", GOOD, "ST208"),
        ('"unclosed', GOOD, "ST208"),
        ("x" * 64, GOOD, "ST208"),
        ("", GOOD, "ST208"),
    ],
)
def test_bad_definition_leaves_nothing_behind(
    cli: CommandLine, user: Connection[TupleRow], name: str, query: str, code: str
) -> None:
    refused = cli("create", name, "--query", query, "--json")

    assert refused.exit_code == 1
    assert refused.error["code"] == code
    assert refused.error["hint"]
    assert cli("list", "--json").json == {"stream_tables": []}
    assert cli("create", "t", "--query", GOOD).exit_code == 0


@pytest.mark.parametrize("name", ['"Daily Sales"', '"say ""hi"""', "x" * 63, '"ünïcode"'])
def test_unusual_name_works_everywhere(
    cli: CommandLine, user: Connection[TupleRow], name: str
) -> None:
    assert cli("create", name, "--query", GOOD).exit_code == 0
    assert cli("refresh", name).exit_code == 0
    assert cli("verify", name).exit_code == 0
    assert cli("show", name).exit_code == 0
    assert cli("drop", name).exit_code == 0


@pytest.mark.parametrize("schedule", ["", "often", "0s", "61 * * * *"])
def test_bad_schedule_is_refused(
    cli: CommandLine, user: Connection[TupleRow], schedule: str
) -> None:
    created = cli("create", "t", "--query", GOOD, "--schedule", schedule, "--json")
    cli("create", "t", "--query", GOOD)
    altered = cli("alter", "t", "--schedule", schedule, "--json")

    assert [one.error["code"] for one in (created, altered)] == ["ST501", "ST501"]


def test_differential_refuses_what_it_cannot_maintain(
    cli: CommandLine, user: Connection[TupleRow]
) -> None:
    query = "SELECT id FROM items WHERE age(timestamptz '2020-01-01') IS NOT NULL"

    answer = cli("create", "t", "--query", query, "--refresh-mode", "DIFFERENTIAL")

    assert answer.exit_code == 1
    assert answer.stderr.startswith("error ST102: ")
    assert "^" in answer.stderr
    assert "hint: " in answer.stderr
