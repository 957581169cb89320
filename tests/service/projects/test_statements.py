"""Tests of a project say whether the rows of stream tables are as the files say."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from pgtrickle.errors import ProjectFileError
from pgtrickle.model.projects.findings import ProjectTestResult
from tests.labs.lab import Lab
from tests.service.projects.folders import prepare, write

PROJECT = "project: shop"
HEAD = "---\ntests:\n"
QUERY = "---\nSELECT id, region, amount FROM orders"


@pytest.fixture
def shop(postgres_lab: Lab) -> Lab:
    prepare(postgres_lab)
    postgres_lab.run("CREATE TABLE regions (name text)", "INSERT INTO regions VALUES ('north')")
    return postgres_lab


def tried(lab: Lab, folder: Path, tests: str, **more: object) -> dict[str, ProjectTestResult]:
    write(folder, PROJECT, big=HEAD + tests + QUERY, by_region=None, top=None)
    lab.trickle.projects.apply_project(folder)
    found = lab.trickle.projects.test_project(folder, **more)  # type: ignore[arg-type]
    return {one.test: one for one in found}


def statuses(found: dict[str, ProjectTestResult]) -> dict[str, tuple[str, int | None]]:
    return {name: (one.status, one.rows) for name, one in found.items()}


def test_each_kind_passes_and_fails(shop: Lab, tmp_path: Path) -> None:
    shop.run("INSERT INTO orders VALUES (4, NULL, NULL), (5, 'it''s', 20)")
    found = tried(
        shop,
        tmp_path,
        "  - unique: id\n"
        "  - unique: [region, amount]\n"
        "  - unique: amount\n"
        "  - not_null: [id, region]\n"
        '  - accepted_values: {column: region, values: [north, south, "it\'s"]}\n'
        "  - {name: few, accepted_values: {column: amount, values: [5, 10]}}\n"
        "  - relationships: {column: region, to: regions, field: name}\n"
        "  - {name: own, query: 'SELECT id FROM big WHERE amount > 100; '}\n"
        "  - {name: other, severity: warn, query: \"SELECT * FROM {{ ref('big') }}\"}\n",
    )
    assert statuses(found) == {
        "unique_id": ("pass", 0),
        "unique_region_amount": ("pass", 0),
        "unique_amount": ("fail", 1),
        "not_null_id": ("pass", 0),
        "not_null_region": ("fail", 1),
        "accepted_values_region": ("pass", 0),
        "few": ("fail", 2),
        "relationships_region": ("fail", 2),
        "own": ("pass", 0),
        "other": ("warn", 5),
    }
    assert found["unique_amount"].sample == ({"amount": 20, "rows": 2},)
    assert found["not_null_region"].sample == ({"id": 4, "region": None, "amount": None},)


def test_refresh_comes_before_the_tests(shop: Lab, tmp_path: Path) -> None:
    tests = "  - {name: known, accepted_values: {column: region, values: [north, south]}}\n"
    assert tried(shop, tmp_path, tests)["known"].status == "pass"
    shop.run("INSERT INTO orders VALUES (9, 'west', 1)")
    assert tried(shop, tmp_path, tests)["known"].status == "pass"
    assert tried(shop, tmp_path, tests, refresh=True)["known"].status == "fail"
    assert tried(shop, tmp_path, tests, names=["public.big"])["known"].status == "fail"
    with pytest.raises(ProjectFileError, match="no stream table"):
        tried(shop, tmp_path, tests, names=["other"])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1; DROP TABLE orders",
        "SELECT 1) AS x; DROP TABLE orders; --",
        "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
        "SELECT nextval('numbers')",
        "SELECT nothing",
    ],
)
def test_query_that_cannot_be_run_fails_and_changes_nothing(
    shop: Lab, tmp_path: Path, query: str
) -> None:
    shop.run("CREATE SEQUENCE numbers")
    found = tried(shop, tmp_path, f'  - {{name: bad, query: "{query}"}}\n  - unique: id\n')
    assert (found["bad"].status, found["bad"].rows) == ("fail", None)
    assert found["bad"].problem is not None
    assert found["unique_id"].status == "pass"
    assert shop.value("SELECT count(*) FROM orders") == 3
    assert shop.value("SELECT is_called FROM numbers") is False


def test_query_that_takes_too_long_has_failed(shop: Lab, tmp_path: Path) -> None:
    sleeps = "  - {name: slow, query: SELECT pg_sleep(60)}\n"
    found = tried(shop, tmp_path, sleeps, longest=timedelta(milliseconds=100))
    assert (found["slow"].status, found["slow"].rows) == ("fail", None)


def test_difference_shows_the_lines_of_the_query(shop: Lab, tmp_path: Path) -> None:
    write(tmp_path, PROJECT, big="SELECT id,\n region\n FROM orders", by_region=None, top=None)
    projects = shop.trickle.projects
    [new] = projects.diff_project(tmp_path)
    assert (new.action, new.text.splitlines()[-1]) == ("create", "+ FROM orders")
    projects.apply_project(tmp_path)
    text = "---\nschedule: 5m\n---\nSELECT id,\n upper(region) AS region\n FROM orders"
    write(tmp_path, PROJECT, big=text, by_region=None, top=None)

    [changed] = projects.diff_project(tmp_path)
    assert changed.text.splitlines() == [
        "--- public.big in the database",
        "+++ stream_tables/big.sql",
        "@@ query @@",
        "@@ -1,3 +1,3 @@",
        " SELECT id,",
        "- region",
        "+ upper(region) AS region",
        "  FROM orders",
        "-schedule: calculated",
        "+schedule: 5m",
    ]
    projects.apply_project(tmp_path)
    shop.trickle.alter_stream_table("big", schedule="7m")
    [drift] = projects.diff_project(tmp_path)
    assert drift.drifted
    assert "altered in the database" in drift.text
    (tmp_path / "stream_tables" / "big.sql").unlink()
    [gone] = projects.diff_project(tmp_path)
    assert gone.action == "drop"
