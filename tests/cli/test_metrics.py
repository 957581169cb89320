"""``/metrics`` of the daemon, over HTTP, as a scraper would read it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

import pgtrickle
from pgtrickle.cli.daemon.metrics import Metrics
from pgtrickle.cli.daemon.probes import Health, serving_health
from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import ConnectionLostError
from pgtrickle.lake.format.catalog import create_catalog
from pgtrickle.model.metrics import OF_EACH_DAEMON, OF_THE_LEADER
from pgtrickle.service.insight import metric_values as figures
from pgtrickle.session import Session
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.daemons import Daemon, await_
from tests.fixtures.engines import Borrowed
from tests.fixtures.restartable import OwnServer

ANEW = load_settings({}, metrics_catalog_snapshot_ttl_ms=0, metrics_request_timeout_ms=3000)
_LOST = ConnectionLostError("could not connect")
Samples = dict[tuple[str, ...], float]  # by name, and the values of labels in their order


def scrape(address: str) -> Samples:
    parts = urlsplit(address)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    assert response.status == 200
    assert str(response.headers["Content-Type"]).startswith("text/plain; version=0.0.4")
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    assert len({one.labels.pop("database") for one in samples}) == 1
    return {(one.name, *dict(sorted(one.labels.items())).values()): one.value for one in samples}


@contextmanager
def serving(trickle: Trickle | None, state: str = "leading") -> Iterator[tuple[Metrics, str]]:
    """Serve metrics as the daemon does; each scrape looks anew."""
    health = Health()
    health.round(state)
    reader = None if trickle is None else trickle.daemon.figure_reader()
    read = None if reader is None else reader.read
    metrics = Metrics(health, figures=read, database="shop")
    with serving_health(health, 0, metrics.page) as port:
        yield metrics, f"http://127.0.0.1:{port}"


@pytest.fixture
def shop(database: str, duckdb_engine: DuckDbEngine, tmp_path: Path) -> Iterator[Trickle]:
    """Open pgtrickle beside a table and an empty lake; figures are never taken from the cache."""
    settings = load_settings(
        {},
        dsn=database,
        ducklake_catalog_schema="lake",
        ducklake_sink_max_retries=1,
        metrics_catalog_snapshot_ttl_ms=0,
    )
    with pgtrickle.connect(database, engine=Borrowed(duckdb_engine), settings=settings) as trickle:
        with psycopg.connect(database, autocommit=True) as connection:
            create_catalog(connection, "lake", str(tmp_path))
        run(trickle, "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
        yield trickle


def run(trickle: Trickle, *statements: str) -> None:
    with psycopg.connect(trickle.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_each_metric_has_the_documented_name_and_labels(shop: Trickle) -> None:
    shop.create_stream_table("kept", "SELECT id, v FROM t", sink="ducklake")
    with serving(shop) as (metrics, address):
        metrics.refreshed(shop.refresh_stream_table("kept"))
        metrics.failed("kept", _LOST, timedelta(1))

        found = {name for name, *_ in scrape(address)}

    suffixes = ("", "_bucket", "_count", "_sum")
    known = {one.name + end for one in (*OF_EACH_DAEMON, *OF_THE_LEADER) for end in suffixes}
    assert found <= known
    assert {one.name for one in (*OF_EACH_DAEMON, *OF_THE_LEADER)} - found == {
        "pgtrickle_refresh_seconds",  # a histogram is known by its buckets
        # Of what is not there.
        "pgtrickle_sla_seconds",
        "pgtrickle_oldest_transaction_seconds",
        "pgtrickle_slot_lag_bytes",
        "pgtrickle_immediate_rows_total",
        "pgtrickle_immediate_statements_total",
    }


def test_refreshes_are_counted_by_action_and_outcome(shop: Trickle) -> None:
    report = shop.create_stream_table("copy", "SELECT id, v FROM t")
    assert report is not None
    with serving(shop) as (metrics, address):
        metrics.refreshed(replace(report, duration_ms=40.0, rows_inserted=3, rows_deleted=1))
        metrics.refreshed(replace(report, duration_ms=4000.0, rows_inserted=1, rows_deleted=0))
        metrics.failed("copy", _LOST, timedelta(1))
        metrics.failed(None, _LOST, timedelta(1))  # looking for what is due: no refresh

        found = scrape(address)

    action = report.action.value
    assert found["pgtrickle_refreshes_total", action, "completed"] == 2
    assert found["pgtrickle_refreshes_total", "NONE", "failed"] == 1
    assert found["pgtrickle_refresh_failures_total", _LOST.code] == 1
    assert found["pgtrickle_refresh_rows_total", "inserted"] == 4
    assert found["pgtrickle_refresh_rows_total", "deleted"] == 1
    assert found["pgtrickle_refresh_seconds_bucket", action, "0.025"] == 0
    assert found["pgtrickle_refresh_seconds_bucket", action, "0.05"] == 1
    assert found["pgtrickle_refresh_seconds_bucket", action, "+Inf"] == 2
    assert found["pgtrickle_refresh_seconds_sum", action] == pytest.approx(4.04)


def test_deliveries_are_counted_from_the_first_look_on(shop: Trickle) -> None:
    shop.create_stream_table("kept", "SELECT id, v FROM t", sink="ducklake")
    with serving(shop) as (_, address):
        before = scrape(address)
        run(shop, "INSERT INTO t VALUES (2, 2), (3, 3)", "DELETE FROM t WHERE id = 1")
        shop.refresh_stream_table("kept")
        shop.create_stream_table("later", "SELECT id FROM t", sink="ducklake")

        after = scrape(address)
        again = scrape(address)

    assert before["pgtrickle_sink_deliveries_total", "public.kept"] == 0
    assert after["pgtrickle_sink_deliveries_total", "public.kept"] == 1
    assert after["pgtrickle_sink_rows_total", "inserted", "public.kept"] == 2
    assert after["pgtrickle_sink_rows_total", "deleted", "public.kept"] == 1
    assert after["pgtrickle_sink_bytes_total", "public.kept"] > 0
    assert after["pgtrickle_sink_deliveries_total", "public.later"] == 1
    assert again["pgtrickle_sink_deliveries_total", "public.kept"] == 1
    [kept] = [one for one in shop.lake.ducklake_sink_status() if one.stream_table == "public.kept"]
    assert after["pgtrickle_sink_snapshot_id", "public.kept"] == kept.snapshot_id
    assert after["pgtrickle_sink_lag_seconds", "public.kept"] == 0
    assert after["pgtrickle_sinks", "DELIVERED"] == 2


def test_sink_that_fails_is_seen_to_lag_and_then_to_catch_up(shop: Trickle, tmp_path: Path) -> None:
    shop.create_stream_table("kept", "SELECT id, v FROM t", sink="ducklake")
    with serving(shop) as (_, address):
        scrape(address)
        data = tmp_path / "main"
        data.rename(tmp_path / "away")
        data.touch()  # where the directory was
        for number in (10, 11):
            run(shop, f"INSERT INTO t VALUES ({number}, 1)")
            shop.refresh_stream_table("kept")
        lagging = scrape(address)
        data.unlink()
        (tmp_path / "away").rename(data)
        shop.lake.retry_sink("kept")

        found = scrape(address)

    failures = lagging["pgtrickle_sink_failures_total", "public.kept"]
    assert failures >= 1
    assert lagging["pgtrickle_sink_attempts_total", "public.kept"] == failures
    assert lagging["pgtrickle_sink_deliveries_total", "public.kept"] == 0
    assert lagging["pgtrickle_sink_lag_refreshes", "public.kept"] == 2
    assert lagging["pgtrickle_sink_lag_seconds", "public.kept"] > 0
    assert lagging["pgtrickle_sinks", "DELIVERED"] == 0
    assert found["pgtrickle_sink_deliveries_total", "public.kept"] == 1
    assert found["pgtrickle_sink_failures_total", "public.kept"] == failures
    assert found["pgtrickle_sink_rows_total", "inserted", "public.kept"] == 2
    assert found["pgtrickle_sink_lag_refreshes", "public.kept"] == 0
    assert found["pgtrickle_sinks", "DELIVERED"] == 1


def test_stream_tables_are_told_by_status_and_staleness(shop: Trickle) -> None:
    shop.create_stream_table("copy", "SELECT id, v FROM t")
    shop.create_stream_table("empty", "SELECT id FROM t", initialize=False)
    run(
        shop,
        "UPDATE pgtrickle.pgt_stream_tables SET data_timestamp = now() - interval '1 hour'",
    )
    with serving(shop) as (_, address):
        found = scrape(address)

    assert found["pgtrickle_stream_tables", "ACTIVE"] == 1
    assert found["pgtrickle_stream_tables", "INITIALIZING"] == 1
    assert found["pgtrickle_stream_tables", "SUSPENDED"] == 0
    assert found["pgtrickle_staleness_seconds", "public.copy"] >= 3600
    assert found["pgtrickle_consecutive_errors", "public.copy"] == 0
    assert found["pgtrickle_requests_queued",] == 0


def test_oldest_transaction_is_told_while_it_is_open(shop: Trickle) -> None:
    with serving(shop) as (_, address), psycopg.connect(shop.dsn) as writer:
        writer.execute("SELECT pg_sleep(0.1)")
        found = scrape(address)
        writer.rollback()
        ended = scrape(address)

    assert 0.1 <= found["pgtrickle_oldest_transaction_seconds",] < 60
    assert ("pgtrickle_oldest_transaction_seconds",) not in ended


def test_series_of_stream_tables_are_bounded(
    shop: Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "SHOWN", 1)
    for name in ("one", "two"):
        shop.create_stream_table(name, "SELECT id, v FROM t", sink="ducklake")
    with serving(shop) as (_, address):
        found = scrape(address)

    shown = {key for key in found if key[0] == "pgtrickle_staleness_seconds"}
    assert shown == {("pgtrickle_staleness_seconds", "public.one")}
    assert len([key for key in found if key[0] == "pgtrickle_sink_lag_seconds"]) == 1
    assert found["pgtrickle_stream_tables", "ACTIVE"] == 2
    assert found["pgtrickle_sinks", "DELIVERED"] == 2


def test_one_look_serves_everybody_for_a_while(shop: Trickle) -> None:
    reader, runtime = shop.daemon.figure_reader(), shop._runtime
    runtime.settings = replace(runtime.settings, metrics_catalog_snapshot_ttl_ms=3_600_000)
    first = reader.read()

    assert reader.read() is first
    runtime.settings = replace(runtime.settings, metrics_catalog_snapshot_ttl_ms=0)
    assert reader.read() is not first


def test_one_that_stands_by_tells_nothing_of_the_catalog(shop: Trickle) -> None:
    shop.create_stream_table("copy", "SELECT id, v FROM t")
    with serving(shop, "standing by") as (_, address):
        found = scrape(address)

    assert found["pgtrickle_leading",] == 0
    assert {name for name, *_ in found} & {one.name for one in OF_THE_LEADER} == set()


def test_server_that_is_away_leaves_out_its_part_and_no_more(
    own_server: OwnServer, duckdb_engine: DuckDbEngine
) -> None:
    engine = Borrowed(duckdb_engine)
    with (
        pgtrickle.connect(own_server.dsn, engine=engine, init=True, settings=ANEW) as trickle,
        serving(trickle) as (_, address),
    ):
        assert scrape(address)["pgtrickle_stream_tables", "ACTIVE"] == 0
        own_server.stop()

        away = scrape(address)

        assert away["pgtrickle_catalog_read_failures_total",] == 1
        assert ("pgtrickle_stream_tables", "ACTIVE") not in away
        own_server.start()
        await_(lambda: ("pgtrickle_stream_tables", "ACTIVE") in scrape(address))


def test_daemon_serves_its_metrics(database: str, start: Callable[..., Daemon]) -> None:
    daemon = start(database, "--health-port", "0")

    found = await_(lambda: (page := scrape(daemon.health)).get(("pgtrickle_leading",)) and page)

    assert found["pgtrickle_version", pgtrickle.__version__] == 1
    assert found["pgtrickle_stream_tables", "ACTIVE"] == 0
    assert found["pgtrickle_refreshes_running",] == 0
    assert database not in str(found)


def test_server_that_stands_still_holds_no_scrape(
    own_server: OwnServer, duckdb_engine: DuckDbEngine
) -> None:
    engine = Borrowed(duckdb_engine)
    settings = replace(ANEW, metrics_request_timeout_ms=300)
    with (
        pgtrickle.connect(own_server.dsn, engine=engine, init=True, settings=settings) as trickle,
        serving(trickle) as (_, address),
    ):
        await_(lambda: ("pgtrickle_stream_tables", "ACTIVE") in scrape(address))
        with own_server.frozen():
            before = scrape(address)["pgtrickle_catalog_read_failures_total",]
            began = time.monotonic()
            away = [scrape(address) for _ in range(5)]
            took = time.monotonic() - began

        assert all(("pgtrickle_stream_tables", "ACTIVE") not in one for one in away)
        assert away[-1]["pgtrickle_catalog_read_failures_total",] == before + 5
        assert took < 30  # five that hang would take minutes
        assert sum(one.name == "pgtrickle-metrics" for one in threading.enumerate()) <= 1
        await_(lambda: ("pgtrickle_stream_tables", "ACTIVE") in scrape(address))


def test_what_waits_in_the_buffers_and_what_refreshes_did(shop: Trickle) -> None:
    shop.create_stream_table("copy", "SELECT id, v FROM t", refresh_mode="AUTO")
    shop.create_stream_table("by_writers", "SELECT id, v FROM t", refresh_mode="IMMEDIATE")
    run(shop, "INSERT INTO t SELECT n, n FROM generate_series(2, 11) AS n")
    shop.refresh_stream_table("copy")
    run(shop, "INSERT INTO t SELECT n, n FROM generate_series(12, 14) AS n")
    run(shop, "UPDATE pgtrickle.pgt_stream_tables SET data_timestamp = now() - '1h'::interval")
    with serving(shop) as (_, address):
        # PostgreSQL counts rows a little later.
        await_(lambda: scrape(address).get(("pgtrickle_change_buffer_rows", "public.t")) == 3)
        found = scrape(address)

    assert found["pgtrickle_change_buffer_bytes", "public.t"] > 0
    assert found["pgtrickle_capture_lag_seconds", "public.t"] >= 3600
    assert not any(name == "pgtrickle_slot_lag_bytes" for name, *_ in found)
    assert found["pgtrickle_last_refresh_rows", "inserted", "public.copy"] == 10
    assert found["pgtrickle_last_refresh_seconds", "public.copy"] > 0
    assert found["pgtrickle_last_refresh_predicted_seconds", "public.copy"] > 0
    assert found["pgtrickle_last_refresh_actual_seconds", "public.copy"] > 0
    assert found["pgtrickle_last_refresh_info", "DIFFERENTIAL", "spark", "public.copy"] == 1
    median = found["pgtrickle_refresh_latency_seconds", "0.5", "public.copy"]
    assert median <= found["pgtrickle_refresh_latency_seconds", "0.99", "public.copy"]
    assert found["pgtrickle_recent_lock_failures", "public.copy"] == 0
    assert found["pgtrickle_immediate_statements_total", "public.by_writers"] == 2
    assert found["pgtrickle_query_cache_misses_total",] >= 1
    assert found["pgtrickle_interval_stretch", "public.copy"] == 1


class Counting:
    """A connection that counts what is asked of it."""

    def __init__(self, connection: Session) -> None:
        self.connection, self.asked = connection, 0

    def execute(self, *args: Any) -> Any:
        self.asked += 1
        return self.connection.execute(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def test_number_of_queries_does_not_depend_on_the_number_of_tables(shop: Trickle) -> None:
    def asked() -> int:
        with shop._runtime.connection() as connection:
            counting = Counting(connection)
            shop.daemon.figure_reader()._figures(cast(Session, counting))
        return counting.asked

    shop.create_stream_table("first", "SELECT id, v FROM t", sink="ducklake")
    with_one = asked()
    for number in range(3):
        run(shop, f"CREATE TABLE t{number} (id int PRIMARY KEY)")
        shop.create_stream_table(f"other{number}", f"SELECT id FROM t{number}", sink="ducklake")

    assert asked() == with_one <= 12
