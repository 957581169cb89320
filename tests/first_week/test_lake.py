"""A lake that was away for a while, and where its catalog lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.first_week.newcomer import ORDERS, REVENUE, Newcomer
from tests.fixtures.daemons import Daemon, await_

HEALTH = "SELECT severity FROM pgtrickle.health_check() WHERE check_name = 'sinks'"


@pytest.fixture
def lake(newcomer: Newcomer) -> Path:
    """Give the user a stream table with a copy in a lake."""
    newcomer.sql(*ORDERS)
    path = newcomer.directory / "lake"
    options = ("--query", REVENUE, "--sink", "ducklake", "--ducklake-sink-path", str(path))
    created = newcomer.type("create", "revenue", "--schedule", "1s", *options)
    assert created.status == 0, created.err
    return path


def refresh(user: Newcomer, number: int) -> None:
    user.sql(f"INSERT INTO orders VALUES ({number}, 'region {number}', 1)")
    assert user.type("refresh", "revenue", PGTRICKLE_DUCKLAKE_SINK_RETRY_SECONDS="0").status == 0


def test_outage_is_told_and_ends_by_itself(newcomer: Newcomer, lake: Path):
    aside = lake.rename(lake.with_name("aside"))
    for number in range(10, 16):
        refresh(newcomer, number)
    status = newcomer.rows("SELECT status FROM pgtrickle.ducklake_sink_status()")
    severity = newcomer.value(HEALTH)
    doctor = newcomer.type("doctor")
    errors = newcomer.type("errors", "revenue")

    aside.rename(lake)
    newcomer.sql("UPDATE pgtrickle.pgt_ducklake_sink_delivery SET next_attempt_at = now()")
    newcomer.trickle.daemon.tend_lake()

    assert status == [("FAILED_RETRYABLE",)]
    assert severity == "WARNING"
    assert doctor.status == 1
    assert "ST702" in errors.out
    assert newcomer.rows("SELECT status FROM pgtrickle.ducklake_sink_status()") == [("DELIVERED",)]
    assert newcomer.value(HEALTH) == "OK"


def test_daemon_tells_of_an_outage_and_of_its_end(
    newcomer: Newcomer, lake: Path, daemon: Callable[..., Daemon]
):
    started = daemon(newcomer, PGTRICKLE_DUCKLAKE_SINK_RETRY_SECONDS="1")
    aside = lake.rename(lake.with_name("aside"))
    newcomer.sql("INSERT INTO orders VALUES (10, 'west', 1)")

    [told, *_] = await_(lambda: [line for line in started.log() if "could not be" in line])
    sinks = newcomer.type("status").out
    aside.rename(lake)

    assert "public.revenue: could not be delivered to the lake" in told
    assert "ST702" in told
    assert "public.revenue" in sinks.partition("sinks")[2]
    await_(lambda: any("up to date again" in line for line in started.log()))
    assert newcomer.rows("SELECT status FROM pgtrickle.ducklake_sink_status()") == [("DELIVERED",)]


def test_directory_that_cannot_be_written_is_refused_at_once(newcomer: Newcomer):
    newcomer.sql(*ORDERS)
    file = newcomer.directory / "file"
    file.write_text("no directory")

    options = ("--sink", "ducklake", "--ducklake-sink-path", str(file / "lake"))
    refused = newcomer.type("create", "revenue", "--query", REVENUE, *options)

    assert refused.status == 1
    assert refused.err.startswith("error ST702: ")
    assert "See that the directory of the lake is there" in " ".join(refused.err.split())
    assert newcomer.value("SELECT to_regclass('revenue')") is None


def test_catalog_has_a_schema_of_its_own_and_can_be_moved(newcomer: Newcomer, lake: Path):
    tables = (
        "SELECT DISTINCT relnamespace::regnamespace::text FROM pg_class"
        " WHERE relname ~ '^ducklake_'"
    )
    before = newcomer.rows(tables)
    shown = newcomer.type("lake", "show")
    moved = newcomer.type("lake", "move", "--to", "elsewhere")
    refresh(newcomer, 20)

    assert before == [("ducklake",)]
    assert "(METADATA_SCHEMA 'ducklake');" in shown.out
    assert moved.status == 0, moved.err
    assert newcomer.rows(tables) == [("elsewhere",)]
    assert newcomer.rows("SELECT status FROM pgtrickle.ducklake_sink_status()") == [("DELIVERED",)]
