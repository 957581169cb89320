"""``create`` and ``alter`` of the shell take every option, and hand it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.options.changes import read_options
from pgtrickle.options.option import OptionVerb
from tests.cli.conftest import CommandLine
from tests.options.examples import OF_QUERY, words

QUERY = "SELECT id AS k, count(*) AS n FROM items GROUP BY id"


def flags(given: dict[str, Any]) -> list[str]:
    """Write options as flags."""
    found: list[str] = []
    for name, word in given.items():
        flag = name.replace("_", "-")
        found += [f"--no-{flag}"] if word is False else [f"--{flag}", str(word)]
    return found


def spec_of(user: Connection[TupleRow]) -> dict[str, Any]:
    [(spec,)] = user.execute("SELECT pgtrickle.stream_table_spec('counts')").fetchall()
    return dict(spec)


def check(user: Connection[TupleRow], given: dict[str, Any]) -> None:
    kept = {name: word for name, word in given.items() if name not in {"initialize", "status"}}
    found, wanted = read_options(spec_of(user)), read_options(kept)
    assert {name: found.value(name) for name in kept} == {name: wanted.value(name) for name in kept}


def test_create_takes_every_option(
    cli: CommandLine, user: Connection[TupleRow], cheap: str, tmp_path: Path
) -> None:
    given = words(OptionVerb.CREATE, tmp_path)
    answer = cli("create", "counts", "--query", QUERY, *flags(given), "--json")

    assert answer.exit_code == 0, answer.stderr
    assert answer.json["refresh"] is None
    check(user, given)
    again = cli("create", "counts", "--query", QUERY, "--or-replace", *flags(given), "--json")
    assert again.json["outcome"] == "unchanged"


def test_alter_takes_every_option(
    cli: CommandLine, user: Connection[TupleRow], cheap: str, tmp_path: Path
) -> None:
    given = words(OptionVerb.ALTER, tmp_path, leave=OF_QUERY)
    assert cli("create", "counts", "--query", QUERY).exit_code == 0
    answer = cli("alter", "counts", *flags(given), "--json")

    assert answer.exit_code == 0, answer.stderr
    assert answer.json["status"] == given["status"]
    check(user, given)


def test_alter_without_an_option_lists_them(cli: CommandLine) -> None:
    answer = cli("alter", "counts")

    assert answer.exit_code == 2
    for flag in ("--query", "--tier", "--fuse-ceiling", "--ducklake-partition-by"):
        assert flag in answer.stderr
