"""Several stream tables are created, altered and dropped with one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine

TWO = [
    {"name": "ids", "query": "SELECT id FROM items", "schedule": "1h"},
    {"name": "prices", "query": "SELECT price FROM items", "refresh_mode": "FULL"},
]


def listed(cli: CommandLine) -> list[str]:
    return [one["name"] for one in cli("list", "--json").json["stream_tables"]]


def test_several_are_created_altered_and_dropped(
    cli: CommandLine, user: Connection[TupleRow], tmp_path: Path
) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(TWO))

    made = cli("bulk", "create", str(file), "--json").json["created"]
    assert [(one["name"], one["schedule"]) for one in made] == [
        ("public.ids", "1h"),
        ("public.prices", "calculated"),
    ]
    altered = cli("bulk", "alter", "ids", "prices", "--schedule", "5m", "--json").json["altered"]
    assert [one["schedule"] for one in altered] == ["5m", "5m"]
    assert cli("bulk", "drop", "ids", "prices").stdout == (
        "public.ids: dropped\npublic.prices: dropped\n"
    )
    assert listed(cli) == []


def test_one_that_fails_takes_the_others_back(
    cli: CommandLine, user: Connection[TupleRow], tmp_path: Path
) -> None:
    wrong = [*TWO, {"name": "wrong", "query": "SELECT nothing FROM items"}]

    refused = cli("bulk", "create", "-", "--json", stdin=json.dumps(wrong))

    assert (refused.exit_code, refused.error["code"]) == (1, "ST105")
    assert listed(cli) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not UTF-8"),
        (b'{"name": "t"}', "list of definitions"),
        (b"[1]", "list of definitions"),
    ],
)
def test_file_of_another_form_is_a_usage_mistake(
    bare_cli: CommandLine, content: bytes, said: str
) -> None:
    refused = bare_cli("bulk", "create", "-", stdin=content)

    assert refused.exit_code == 2
    assert said in refused.stderr


def test_file_that_does_not_exist_is_a_usage_mistake(bare_cli: CommandLine) -> None:
    refused = bare_cli("bulk", "create", "nowhere.json")

    assert refused.exit_code == 2
    assert "cannot read nowhere.json" in refused.stderr


def test_change_of_nothing_is_a_usage_mistake(bare_cli: CommandLine) -> None:
    refused = bare_cli("bulk", "alter", "ids")

    assert refused.exit_code == 2
    assert "--schedule" in refused.stderr


def test_existing_one_is_left_as_it_is(cli: CommandLine, user: Connection[TupleRow]) -> None:
    ask = ("create", "t", "--if-not-exists", "--json", "--query")

    assert cli(*ask, "SELECT id FROM items").json["outcome"] == "created"
    second = cli(*ask, "SELECT price FROM items").json
    assert (second["outcome"], second["refresh"]) == ("exists", None)
    assert second["stream_table"]["query"] == "SELECT id FROM items"


def test_replacing_and_leaving_exclude_each_other(bare_cli: CommandLine) -> None:
    ask = ("create", "t", "--query", "SELECT 1 AS a", "--or-replace", "--if-not-exists")

    assert bare_cli(*ask).exit_code == 2
