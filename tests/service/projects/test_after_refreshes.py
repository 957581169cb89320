"""The daemon runs the tests of projects after refreshes that changed rows, and tells of news."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.labs.lab import Lab
from tests.service.projects.folders import prepare, write

PROJECT = "project: shop\ndefaults: {schedule: 1s}"
BIG = """---
tests:
  - accepted_values: {column: region, values: [north, south]}
  - {unique: amount, severity: warn}
  - {name: broken, severity: warn, query: SELECT 1 / count(*) FROM orders WHERE false}
---
SELECT id, region, amount FROM orders
"""
RESULTS = "SELECT test, status, rows FROM pgtrickle.project_test_results"


@pytest.fixture
def shop(postgres_lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    prepare(postgres_lab)
    write(tmp_path, PROJECT, big=BIG, by_region=None, top=None)
    postgres_lab.trickle.projects.apply_project(tmp_path)
    yield postgres_lab
    postgres_lab.connection.execute("UNLISTEN *")


def work(lab: Lab) -> None:
    """Refresh, due or not, and let the daemon make one pass."""
    lab.trickle.refresh_stream_table("big")
    lab.trickle.run(once=True)


def events(lab: Lab) -> list[dict[str, Any]]:
    found = [json.loads(one.payload) for one in lab.connection.notifies(timeout=0.2)]
    return [one for one in found if one["event"].startswith("project_test")]


def test_results_are_recorded_and_news_are_told_once(shop: Lab) -> None:
    shop.run("LISTEN pg_trickle_alert")
    shop.trickle.run(once=True)
    passed = [("accepted_values_region", "pass", 0), ("broken", "warn", None)]
    assert shop.rows(RESULTS) == [*passed, ("unique_amount", "pass", 0)]
    assert [(one["event"], one["test"]) for one in events(shop)] == [
        ("project_test_failed", "broken")
    ]

    shop.run("INSERT INTO orders VALUES (7, 'west', 20)")
    work(shop)
    assert shop.rows(RESULTS) == [
        ("accepted_values_region", "fail", 1),
        ("broken", "warn", None),
        ("unique_amount", "warn", 1),
    ]
    assert {one["test"]: one["status"] for one in events(shop)} == {
        "accepted_values_region": "fail", "unique_amount": "warn"
    }  # fmt: skip
    shop.run("INSERT INTO orders VALUES (8, 'west', 30)")
    work(shop)
    assert events(shop) == []
    assert shop.rows(RESULTS)[0] == ("accepted_values_region", "fail", 2)

    shop.run("DELETE FROM orders WHERE region = 'west'")
    work(shop)
    assert {(one["event"], one["test"]) for one in events(shop)} == {
        ("project_test_passed", "accepted_values_region"), ("project_test_passed", "unique_amount")
    }  # fmt: skip


def test_nothing_is_run_again_without_a_change(shop: Lab) -> None:
    shop.trickle.run(once=True)
    before = shop.rows("SELECT tested_at FROM pgtrickle.project_test_results")
    shop.trickle.run(once=True)
    assert shop.rows("SELECT tested_at FROM pgtrickle.project_test_results") == before


def test_test_that_is_gone_has_no_result(shop: Lab, tmp_path: Path) -> None:
    shop.trickle.run(once=True)
    write(tmp_path, PROJECT, big=BIG.replace("  - {unique: amount, severity: warn}\n", ""),
          by_region=None, top=None)  # fmt: skip
    assert [one.status for one in shop.trickle.projects.apply_project(tmp_path)] == ["altered"]
    assert [test for test, *_ in shop.rows(RESULTS)] == ["accepted_values_region", "broken"]
    shop.trickle.drop_stream_table("big")
    assert shop.rows(RESULTS) == []


def test_daemon_tests_what_it_refreshes(shop: Lab) -> None:
    stop = threading.Event()
    daemon = threading.Thread(target=shop.trickle.run, args=(stop,))
    daemon.start()
    try:
        with psycopg.connect(shop.trickle.dsn, autocommit=True) as listener:
            listener.execute("LISTEN pg_trickle_alert")
            shop.run("INSERT INTO orders VALUES (7, 'west', 40)")
            for one in listener.notifies(timeout=60):
                told = json.loads(one.payload)
                if told["event"] == "project_test_failed" and told["test"] != "broken":
                    break
            else:
                pytest.fail("no alert within a minute")
    finally:
        stop.set()
        daemon.join(60)
    assert (told["name"], told["test"], told["rows"]) == (
        "public.big", "accepted_values_region", 1
    )  # fmt: skip
