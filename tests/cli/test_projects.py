"""The commands on projects, and the walkthrough of docs/projects.md, line by line."""

from __future__ import annotations

import shlex
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import CommandLine
from tests.cli.walkthroughs import DOCS, read_steps


def test_walkthrough_prints_what_the_page_says(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.dsn is not None
    monkeypatch.chdir(tmp_path)
    steps = read_steps((DOCS / "projects.md").read_text())
    assert len(steps) >= 10
    for step in steps:
        program, *arguments = shlex.split(step.command)
        if program == "psql":
            with psycopg.connect(cli.dsn, autocommit=True) as connection:
                connection.execute(arguments[1].encode())
            continue
        if program == "sed":
            _, change, name = arguments
            _, before, after, _ = change.split("/")
            path = tmp_path / name
            path.write_text(path.read_text().replace(before, after))
            continue
        answer = cli(*arguments)
        assert answer.exit_code == 0, (step, answer)
        step.check(answer.stdout)


@pytest.fixture
def shop(cli: CommandLine, tmp_path: Path) -> Path:
    assert cli("init-project", str(tmp_path), "--sample-data").exit_code == 0
    return tmp_path


def test_json_and_exit_codes_are_for_programs(cli: CommandLine, shop: Path) -> None:
    folder = str(shop)
    first = cli("plan", folder, "--exit-code", "--json")
    assert (first.exit_code, first.json["pending"], first.json["target"]) == (1, 2, "dev")
    assert [one["action"] for one in first.json["steps"]] == ["create", "create"]
    assert first.json["steps"][0]["estimated_ms"] > 0
    assert first.json["schemas"] == ["dev_shop"]

    assert cli("apply", folder, "--json").json["changed"] == 2
    again = cli("apply", folder, "--json").json
    assert (again["changed"], {one["status"] for one in again["steps"]}) == (0, {"unchanged"})
    assert cli("plan", folder, "--exit-code").exit_code == 0
    assert cli("diff", folder, "--exit-code", "--json").json == {"differences": []}

    tests = cli("test", folder, "--json").json
    assert (tests["pass"], tests["fail"]) == (7, 0)
    path = shop / "stream_tables" / "revenue.sql"
    path.write_text(path.read_text().replace("[north, south]", "[north]"))
    failed = cli("test", folder, "--json")
    assert (failed.exit_code, failed.json["fail"]) == (1, 1)
    assert cli("diff", folder, "--exit-code").exit_code == 1


def test_refusals_end_with_1_and_name_what_is_wrong(cli: CommandLine, shop: Path) -> None:
    (shop / "stream_tables" / "bad.sql").write_text("SELECT nothing FROM shop_data.orders")
    planned = cli("plan", str(shop))
    assert planned.exit_code == 1
    assert "! refused dev_shop.bad" in planned.stdout
    assert cli("apply", str(shop), "--json").error["code"] == "ST507"
    assert cli("plan", str(shop / "none"), "--json").error["code"] == "ST506"
    assert cli("plan", str(shop), "--var", "least").exit_code == 2
    assert cli("init-project", str(shop), "--json").error["code"] == "ST501"


def test_answers_have_no_colour_without_a_terminal(cli: CommandLine, shop: Path) -> None:
    for command in ("plan", "diff", "apply", "test"):
        assert "\x1b" not in cli(command, str(shop)).stdout


def test_imported_project_is_written_next_to_its_database(
    cli: CommandLine, shop: Path, tmp_path: Path
) -> None:
    assert cli("apply", str(shop), "--target", "prod").exit_code == 0
    written = cli("import", str(tmp_path / "new"), "--json").json
    assert written["files"] == [
        "pgtrickle.yml", "stream_tables/big_orders.sql", "stream_tables/revenue.sql"
    ]  # fmt: skip
