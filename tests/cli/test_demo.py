"""``pgtrickle demo``: the whole of it in small, with DuckDB in Spark's place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, CommandLine
from tests.fixtures.postgres import enterable_directory

TABLES = {"public.big_orders", "public.revenue_by_region", "public.top_regions"}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Yield one place for all runs: a later one finds what an earlier one left."""
    with enterable_directory() as directory:
        yield directory


def run_demo(cli: CommandLine, home: Path, *arguments: str) -> Answer:
    return cli("demo", "--seconds", "2", "--orders", "2000", *arguments, PGTRICKLE_HOME=str(home))


def test_demo_verifies_every_table(cli: CommandLine, home: Path) -> None:
    answer = run_demo(cli, home)

    assert answer.exit_code == 0, answer.stdout
    assert "loading 2,000 orders" in answer.stdout
    assert "big_orders         DIFFERENTIAL" in answer.stdout
    assert answer.stdout.endswith("every stream table equals PostgreSQL's own answer\n")


def test_demo_summary_as_json(cli: CommandLine, home: Path) -> None:
    answer = run_demo(cli, home, "--json")

    assert answer.exit_code == 0, answer.stderr
    assert set(answer.json) == {"ok", "seconds", "changes", "stream_tables", "errors"}
    assert answer.json["ok"] is True
    assert answer.json["errors"] == []
    assert set(answer.json["stream_tables"]) == TABLES
    assert answer.json["changes"]["transactions"] > 0
    assert "starting PostgreSQL" in answer.stderr
