"""``pgtrickle snapshot``, and the walkthrough of docs/snapshots.md, line by line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import CommandLine
from tests.cli.walkthroughs import DOCS, read_steps

QUERY = "SELECT k, count(*) AS n FROM t GROUP BY k"


def test_walkthrough_prints_what_the_page_says(cli: CommandLine) -> None:
    assert cli.dsn is not None
    steps = read_steps((DOCS / "snapshots.md").read_text())
    assert len(steps) >= 10
    for step in steps:
        program, *arguments = shlex.split(step.command)
        if program == "psql":
            with psycopg.connect(cli.dsn, autocommit=True) as connection:
                connection.execute(arguments[1].encode())
            continue
        answer = cli(*arguments)
        assert answer.exit_code == 0, (step, answer)
        step.check(answer.stdout)


@pytest.fixture
def shop(cli: CommandLine) -> CommandLine:
    assert cli.dsn is not None
    with psycopg.connect(cli.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, k int)")
        connection.execute("INSERT INTO t SELECT i, i % 3 FROM generate_series(1, 9) AS i")
    assert cli("create", "counts", "--query", QUERY).exit_code == 0
    return cli


def test_json_has_the_names_and_the_figures(shop: CommandLine) -> None:
    taken = shop("snapshot", "create", "counts", "--json").json["snapshot"]
    [listed] = shop("snapshot", "list", "counts", "--json").json["snapshots"]
    restored = shop("snapshot", "restore", "counts", taken, "--json").json

    assert re.fullmatch(r"public\.snapshot_counts_\d{13}", taken)
    assert taken == f"{listed['snapshot_schema']}.{listed['snapshot_table']}"
    assert listed["stream_table"] == "public.counts"
    assert listed["row_count"] == 3
    assert listed["size_bytes"] > 0
    assert listed["version"] == 1
    assert listed["gap"] is None
    assert "pg" in listed["frontier"]
    assert restored["action"] == "REINITIALIZE"
    assert shop("snapshot", "drop", taken, "--json").json == {"dropped": taken}
    assert shop("snapshot", "list").stdout == "no snapshots\n"


def test_lake_keeps_the_rows(shop: CommandLine, tmp_path: Path) -> None:
    path = ("--sink", "ducklake", "--ducklake-sink-path", str(tmp_path / "lake"))
    assert shop("alter", "counts", *path).exit_code == 0
    taken = shop("snapshot", "create", "counts", "kept", "--to-lake")
    [listed] = shop("snapshot", "list", "--json").json["snapshots"]
    at = listed["lake_snapshot"]
    told = shop("snapshot", "list").stdout
    shown = shop("show", "counts", "--as-of", "kept", "--json").json
    restored = shop("snapshot", "restore", "counts", "kept")
    compared = shop("snapshot", "diff", "kept")

    assert taken.stdout == "public.kept: taken\n"
    assert (listed["lake_table"], listed["restorable"], listed["row_count"]) == (
        "main.counts",
        True,
        3,
    )
    assert f"in version {at} of the lake table main.counts" in told
    assert (shown["snapshot_id"], len(shown["rows"])) == (at, 3)
    assert restored.stdout.endswith(": +0 -0 rows\n")
    assert compared.stdout == "from public.kept to the present rows: +0 -0 rows\n"
    assert shop("snapshot", "drop", "kept").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("create", "missing"), "ST201"),
        (("create", "counts", "t"), "ST217"),
        (("create", "counts", "--to-lake"), "ST221"),
        (("restore", "counts", "missing"), "ST218"),
        (("restore", "missing", "missing"), "ST201"),
        (("list", "missing"), "ST201"),
        (("drop", "counts"), "ST218"),
        (("diff", "counts"), "ST218"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else one,
)
def test_errors_have_codes(shop: CommandLine, arguments: tuple[str, ...], code: str) -> None:
    answer = shop("snapshot", *arguments, "--json")

    assert answer.exit_code == 1
    assert answer.error["code"] == code
    assert answer.error["hint"]


def test_difference_as_json_is_exact_and_tells_what_it_leaves_out(shop: CommandLine) -> None:
    assert shop.dsn is not None
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE prices (item text, price numeric(30, 20))")
    shop("create", "list", "--query", "SELECT item, price FROM prices")
    shop("snapshot", "create", "list", "empty")
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO prices VALUES ('a', 0.12345678901234567890), ('b\x1b[2J', 2), ('c', 3)"
        )
    shop("refresh", "list")

    told = shop("snapshot", "diff", "empty", "--limit", "2", "--json").json
    shown = shop("snapshot", "diff", "empty", "--limit", "2").stdout

    assert told == {
        "before": "public.empty",
        "after": None,
        "rows_added": 3,
        "rows_removed": 0,
        "changes": [
            {
                "change": "added",
                "copies": 1,
                "row": {"item": item, "price": price},
            }
            for item, price in (
                ("a", "0.12345678901234567890"),
                ("b\x1b[2J", "2.00000000000000000000"),
            )
        ],
        "complete": False,
    }
    assert "\x1b" not in shown
    assert shown.endswith("the present rows: +3 -0 rows; the first 2 are shown\n")


def test_doctor_tells_what_snapshots_cost(shop: CommandLine) -> None:
    assert shop.dsn is not None
    shop("snapshot", "create", "counts", PGTRICKLE_SNAPSHOT_KEEPS_CHANGES="on")
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO t VALUES (10, 1), (11, 1)")
    shop("refresh", "counts", PGTRICKLE_SNAPSHOT_KEEPS_CHANGES="on")

    told = shop("doctor", PGTRICKLE_SNAPSHOT_KEEPS_CHANGES="on").stdout
    without = shop("doctor").stdout

    assert re.search(r"1 snapshots of \d+ bytes, for which change buffers keep 2 changes", told)
    assert re.search(r"1 snapshots of \d+ bytes", without)
    assert "change buffers keep" not in without
