"""Panels and alerts in a real Prometheus that scrapes a real daemon and a real relay."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import pgtrickle
from pgtrickle.lake.format.catalog import create_catalog
from pgtrickle.model.metrics import OF_SPARK_ITSELF
from tests.fixtures.daemons import Daemon, await_
from tests.monitoring.servers import INTERVAL, Prometheus, fetch, prometheus
from tests.monitoring.test_files import FILES, RULES, panels, rules
from tests.relay.servers import free_port, running
from tests.relay.shop import write_file

_SHOP = (
    "CREATE TABLE t (id int PRIMARY KEY, v int)",
    "INSERT INTO t SELECT n, n FROM generate_series(1, 20) AS n",
    "CREATE TABLE logged (id int PRIMARY KEY, v int)",
    "CREATE TABLE divisors (id int PRIMARY KEY, v int)",
    "INSERT INTO divisors VALUES (1, 1)",
)
# What changes once a second: refreshes, deliveries, statements of writers, compilations.
_WORK = (
    "INSERT INTO t SELECT coalesce(max(id), 0) + 1, 1 FROM t",
    "DELETE FROM t WHERE id = (SELECT min(id) FROM t)",
    "UPDATE divisors SET v = 0",
)
_AT_ONCE = {"PGTRICKLE_ENGINE": "postgres", "PGTRICKLE_METRICS_CATALOG_SNAPSHOT_TTL_MS": "0"}
_SETTINGS = pgtrickle.Settings(engine="postgres", ducklake_catalog_schema="lake")
# Nothing is so in a daemon that is well.
_MAY_BE_EMPTY = {"Stretched intervals"}
# PostgreSQL computes here; tests/spark asks a Spark that runs for each of them.
_WITHOUT_SPARK = {one.name for one in OF_SPARK_ITSELF}


@pytest.fixture
def watched(
    database: str, start: Callable[..., Daemon], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Prometheus, psycopg.Connection, list[str]]]:
    """Run a daemon with everything that is measured, a relay, and a Prometheus beside them."""
    monkeypatch.setenv("PGTRICKLE_DSN", database)
    monkeypatch.setenv("PGTRICKLE_DUCKLAKE_CATALOG_SCHEMA", "lake")
    for name, value in _AT_ONCE.items():
        monkeypatch.setenv(name, value)
    lake = tmp_path / "lake"
    lake.mkdir()
    port = free_port()
    options = {"path": str(tmp_path / "changes.jsonl")}
    given = {"stream_table": "kept", "sink": "file", "options": options}
    file = write_file(tmp_path / "relay.json", p=given)
    command = ["relay", "run", "--config", str(file), "--health-port", str(port)]
    program = f"from pgtrickle.cli.main import app; app({command!r})"
    with psycopg.connect(database, autocommit=True) as connection:
        create_catalog(connection, "lake", str(lake))
        for statement in _SHOP:
            connection.execute(statement.encode())
        with pgtrickle.connect(database, settings=_SETTINGS) as trickle:
            _create(trickle, logged=_value(connection, "SHOW wal_level") == "logical")
        daemon = start(database, "--health-port", "0")
        relay = running([sys.executable, "-c", program], port, tmp_path / "relay.log")
        with relay:
            pages = [daemon.health, f"http://127.0.0.1:{port}"]
            with prometheus(tmp_path, RULES, pages) as found:
                await_(lambda: found.targets() == ["up", "up"])
                yield found, connection, pages
        for statement in _TAKEN_AWAY:
            connection.execute(statement.encode())


_TAKEN_AWAY = (
    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
    " WHERE database = current_database() AND active_pid IS NOT NULL",
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
    " WHERE database = current_database()",
)


def _create(trickle: pgtrickle.Trickle, *, logged: bool) -> None:
    trickle.create_stream_table("kept", "SELECT id, v FROM t", schedule="1s", sink="ducklake")
    trickle.outbox.enable_outbox("kept")
    trickle.scheduler.set_stream_table_sla("kept", "1h")
    trickle.create_stream_table("total", "SELECT sum(v) AS v FROM t", refresh_mode="IMMEDIATE")
    trickle.create_stream_table("broken", "SELECT id, 1 / v AS v FROM divisors", schedule="1s")
    if logged:
        trickle.create_stream_table("by_log", "SELECT v FROM logged", cdc_mode="wal")


def _value(connection: psycopg.Connection, query: str) -> object:
    [(found,)] = connection.execute(query.encode()).fetchall()
    return found


def _page(address: str) -> str:
    return fetch(address, "/metrics")[1]


def _expressions() -> Iterator[tuple[str, str]]:
    for file in FILES:
        for panel in panels(json.loads(file.read_text())):
            for target in panel["targets"]:
                yield panel["title"], target["expr"]


def _as_grafana_asks(expression: str) -> str:
    """Return what Grafana would ask for, with every variable at All."""
    expression = expression.replace("$__rate_interval", "10s")
    return re.sub(r"\$(database|stream_table|pipeline)\b", ".*", expression)


def test_every_panel_and_alert_is_answered_from_a_daemon_that_works(
    watched: tuple[Prometheus, psycopg.Connection, list[str]],
) -> None:
    found, connection, pages = watched
    named = set(re.findall(r"pgtrickle_\w+", " ".join(one["expr"] for one in rules())))
    named |= {one for _, each in _expressions() for one in re.findall(r"pgtrickle_\w+", each)}
    named -= _WITHOUT_SPARK
    waiting = {
        one: _as_grafana_asks(one)
        for title, one in _expressions()
        if title not in _MAY_BE_EMPTY
        and not _WITHOUT_SPARK.intersection(re.findall(r"pgtrickle_\w+", one))
    }
    if _value(connection, "SHOW wal_level") != "logical":
        waiting = {one: asked for one, asked in waiting.items() if "slot_lag" not in one}
        named.discard("pgtrickle_slot_lag_bytes")

    waited_for = {*waiting}

    def all_answered() -> bool:
        for statement in _WORK:
            connection.execute(statement.encode())
        for one, asked in [*waiting.items()]:
            if found.query(asked):
                del waiting[one]
        return not waiting

    end = time.monotonic() + 60
    while not all_answered():
        assert time.monotonic() < end, waiting
        time.sleep(INTERVAL)
    for _, one in _expressions():
        if one not in waited_for:
            found.query(_as_grafana_asks(one))
    for rule in rules():
        found.query(rule["expr"])
    scraped = set(re.findall(r"^(pgtrickle_\w+)(?:\{| )", "".join(map(_page, pages)), re.MULTILINE))
    assert named - scraped == set()


def test_an_alert_fires_within_two_intervals(
    watched: tuple[Prometheus, psycopg.Connection, list[str]],
) -> None:
    found, connection, [page, _] = watched
    suspended = r'pgtrickle_stream_tables\{[^}]*status="SUSPENDED"\} 1\.0'
    assert "PgTrickleSuspended" not in found.firing()
    connection.execute("CALL pgtrickle.alter_stream_table('kept', status => 'SUSPENDED')")
    await_(lambda: re.search(suspended, _page(page)))

    began = time.monotonic()
    while "PgTrickleSuspended" not in (firing := found.firing()):
        assert time.monotonic() - began < 60
        time.sleep(0.02)
    took = time.monotonic() - began

    assert took < 2 * INTERVAL, f"{took:.2f} s"
    assert firing["PgTrickleSuspended"]["summary"] == "1 stream tables are SUSPENDED"
