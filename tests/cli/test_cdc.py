"""``pgtrickle cdc`` and ``repair`` against a real database."""

from __future__ import annotations

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine

QUERY = "SELECT id, price FROM items WHERE price < 10"


@pytest.fixture
def cheap(cli: CommandLine, user: Connection[TupleRow]) -> CommandLine:
    assert cli("create", "cheap", "--query", QUERY).exit_code == 0
    return cli


def test_health_of_a_sound_capture(cheap: CommandLine) -> None:
    answer = cheap("cdc", "health", "--json")

    assert answer.exit_code == 0
    [found] = answer.json["sources"]
    assert (found["source"], found["alert"]) == ("public.items", None)
    assert cheap("cdc", "health").stdout.startswith("public.items: ok (logged, ")


def test_pause_and_resume(cheap: CommandLine, user: Connection[TupleRow]) -> None:
    assert cheap("cdc", "pause").stdout == "public.items: paused\n"
    unhealthy = cheap("cdc", "health")
    assert (unhealthy.exit_code, "paused" in unhealthy.stdout) == (1, True)
    user.execute("UPDATE items SET price = 1")

    assert cheap("cdc", "resume", "items", "--json").json == {"resumed": ["public.items"]}
    assert cheap("refresh", "cheap", "--json").json["action"] == "REINITIALIZE"
    assert cheap("cdc", "health").exit_code == 0


def test_unknown_source_is_told(cheap: CommandLine) -> None:
    answer = cheap("cdc", "pause", "nothing", "--json")

    assert answer.exit_code != 0
    assert answer.json["error"]["code"] == "ST301"


def test_durability_rebuild_and_repair(cheap: CommandLine) -> None:
    assert cheap("cdc", "durability", "unlogged").stdout == "public.items: unlogged\n"
    assert cheap("cdc", "rebuild", "--json").json == {
        "mended": [{"source": "public.items", "what": "triggers created again"}]
    }
    assert "is reloaded by its next refresh" in cheap("repair", "cheap").stdout


@pytest.mark.parametrize("command", ["health", "pause", "resume", "rebuild", "durability"])
def test_every_command_has_help_json_and_dsn(bare_cli: CommandLine, command: str) -> None:
    answer = bare_cli("cdc", command, "--help", TERMINAL_WIDTH="120")

    assert answer.exit_code == 0
    assert "--json" in answer.stdout
    assert "--dsn" in answer.stdout
