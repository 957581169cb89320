"""The other demos in small, with DuckDB in Spark's place: each ends by itself, and is right."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrickle.demo.board import Board
from pgtrickle.demo.main import SHOWS
from pgtrickle.demo.page import page_of
from tests.cli.conftest import Answer, CommandLine
from tests.fixtures.postgres import enterable_directory

TABLES = {
    "leaderboard": {"scores", "top_players", "best_of_country"},
    "auction": {"winning_bids", "category_prices", "hot_items"},
    "loop": {"revenue_by_region", "target_report"},
    "snapshot": {"revenue_by_region"},
}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with enterable_directory() as directory:
        yield directory


def run(cli: CommandLine, home: Path, name: str, *arguments: str) -> Answer:
    return cli("demo", name, "--seconds", "3", "--rows", "2000", *arguments,
               PGTRICKLE_HOME=str(home))  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_demo_ends_verified_and_leaves_nothing(cli: CommandLine, home: Path, name: str) -> None:
    answer = run(cli, home, name, "--json")
    assert answer.exit_code == 0, answer.stderr
    assert answer.json["errors"] == []
    assert set(answer.json["stream_tables"]) == {f"public.{one}" for one in TABLES[name]}
    assert all(one["verified"] for one in answer.json["stream_tables"].values())
    assert answer.json["changes"]["transactions"] > 10
    assert list((home / "demo").glob("lake-*")) == []


def test_leaderboard_shows_the_best_and_says_where_the_page_is(
    cli: CommandLine, home: Path
) -> None:
    told = run(cli, home, "leaderboard").stdout
    assert re.search(r"the page: http://127\.0\.0\.1:\d+/", told)
    assert re.search(r"the ten best of ten thousand\n +place +name +country", told)
    assert re.search(r"\n +1 +player \d+ +[A-Z]{2} +[\d,]+ +[\d,]+", told)


def test_loop_is_read_by_duckdb_and_comes_back(cli: CommandLine, home: Path) -> None:
    told = run(cli, home, "loop").stdout
    assert re.search(r"DuckDB reads [\d,]+ rows from the lake, the same as in PostgreSQL", told)
    assert re.search(r"back from the lake", told)


def test_snapshot_brings_lost_rows_back(cli: CommandLine, home: Path) -> None:
    told = run(cli, home, "snapshot").stdout
    for step in ("TAKE", "LOSE", "RESTORE", "REFRESH: DIFFERENTIAL", "VERIFY"):
        assert f"] {step}" in told
    assert "equal to PostgreSQL's own answer" in told.split("VERIFY")[1]


def test_page_shows_the_rows_escaped_and_only_to_this_machine() -> None:
    board = Board("", "the <best>", "", lambda _: None)
    board.columns, board.rows = ["name", "points"], [("<script>", 12345)]
    with page_of(board) as address:
        assert address is not None
        with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - http, as made
            text = answer.read().decode()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "&lt;script&gt;" in text
        assert "<script" not in text
        assert "12,345" in text
        strange = urllib.request.Request(address, headers={"Host": "evil.example"})  # noqa: S310
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(strange, timeout=10)  # noqa: S310 - http, as made


def test_every_demo_has_a_test() -> None:
    assert {*TABLES, "shop"} == set(SHOWS)
