"""Help, usage mistakes and a quick start need no database and no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_group

from pgtrickle import connect
from pgtrickle.cli.main import app
from tests.cli.conftest import CommandLine
from tests.fakes.engine import DuckDbEngine

COMMANDS = [
    "init", "migrate", "create", "validate", "refresh", "verify", "explain", "profile", "disk",
    "list", "status", "top", "ui", "health", "tree", "show", "history", "advise", "errors",
    "subscribe", "alter",
    "rename", "export", "dump", "restore", "plan", "apply", "diff", "test",
    "import", "init-project", "repair", "drop",
    "run", "config", "demo", "doctor", "version",
]  # fmt: skip
GROUPS = [
    "bulk", "snapshot", "shadow", "outbox", "consumers", "inbound", "inbox", "relay",
    "scheduler", "gate",
    "watermark", "fuse",
    "sla", "group", "monitor", "cdc",
    "sink",
    "lake",
]  # fmt: skip


def test_every_command_is_there() -> None:
    group = get_group(app)

    assert list(group.commands) == COMMANDS + GROUPS
    assert [command.name for command in group.commands.values()] == COMMANDS + GROUPS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(bare_cli: CommandLine, command: str) -> None:
    answer = bare_cli(command, "--help", TERMINAL_WIDTH="120")

    assert answer.exit_code == 0
    assert "--json" in answer.stdout


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "demo"])
def test_every_command_on_a_database_takes_a_dsn(bare_cli: CommandLine, command: str) -> None:
    answer = bare_cli(command, "--help", TERMINAL_WIDTH="120")

    assert "--dsn" in answer.stdout
    assert "PGTRICKLE_DSN" in answer.stdout


def test_list_of_commands_says_of_each_what_its_own_help_says(bare_cli: CommandLine) -> None:
    shown = " ".join(bare_cli("--help", COLUMNS="1000").stdout.split())

    for command in get_group(app).commands.values():
        first, *_ = (command.help or "").split("\n\n")
        assert f"{command.name} {' '.join(first.split())}" in shown


def test_help_does_not_show_the_dsn(bare_cli: CommandLine) -> None:
    answer = bare_cli("list", "--help", PGTRICKLE_DSN="postgresql://ann:secret@db/shop")

    assert answer.exit_code == 0
    assert "secret" not in answer.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["list", "--fast"],
        ["show"],
        ["refresh"],
        ["refresh", "t", "--all"],
        ["create", "t"],
        ["create", "t", "--query", "SELECT 1", "-"],
        ["create", "t", "SELECT 1"],
        ["create", "t", "--file", "/nowhere/query.sql"],
        ["create", "t", "--query", "SELECT 1", "--refresh-mode", "often"],
        ["alter", "t"],
        ["alter", "t", "--status", "ERROR"],
        ["validate"],
        ["validate", "SELECT 1", "--file", __file__],
        ["explain", "t", "--format", "svg"],
        ["explain", "t", "--format", "dot", "--json"],
        ["history", "--limit", "0"],
        ["history", "--limit", "many"],
        ["demo", "--seconds", "0"],
    ],
    ids=" ".join,
)
def test_usage_mistake_exits_2(bare_cli: CommandLine, arguments: list[str]) -> None:
    answer = bare_cli(*arguments)

    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert "Usage: pgtrickle" in answer.stderr


def test_query_that_is_not_text_is_a_usage_mistake(bare_cli: CommandLine) -> None:
    answer = bare_cli("create", "t", "-", stdin=b"SELECT '\xff'")

    assert answer.exit_code == 2
    assert "not UTF-8" in answer.stderr


def test_version_as_json(bare_cli: CommandLine) -> None:
    answer = bare_cli("version", "--json")

    assert answer.exit_code == 0
    assert set(answer.json) == {"pgtrickle", "python", "spark"}


def test_version_as_an_option(bare_cli: CommandLine) -> None:
    assert bare_cli("--version").stdout == bare_cli("version").stdout


def test_misspelt_command_is_suggested(bare_cli: CommandLine) -> None:
    assert "Did you mean 'refresh'" in bare_cli("refesh").stderr


_RUN_AND_LIST_MODULES = """
import sys
from pgtrickle.cli.main import app
try:
    app(sys.argv[1:], prog_name="pgtrickle")
except SystemExit as end:
    heavy = {"pyspark", "pandas", "pyarrow", "duckdb", "sqlglot"} & set(sys.modules)
    if sys.argv[1] == "--help":
        heavy |= {"psycopg", "pgtrickle.cli.connect"} & set(sys.modules)
    print("exit", end.code, sorted(heavy))
"""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["list", "--json"], ["history"], ["status"], ["tree"]],
    ids=" ".join,
)
def test_what_takes_long_to_import_is_not(database: str, arguments: list[str]) -> None:
    source = Path(__file__).parents[2] / "src"
    environment = {"PYTHONPATH": str(source), "PGTRICKLE_DSN": database, "PATH": "/usr/bin:/bin"}
    connect(database, engine=DuckDbEngine()).close()

    ended = subprocess.run(
        [sys.executable, "-c", _RUN_AND_LIST_MODULES, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout.splitlines()[-1] == "exit 0 []"
