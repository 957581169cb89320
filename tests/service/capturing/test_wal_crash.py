"""Servers that forget: the last moves of a slot, in a crash, or the log that a slot still needs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg

import pgtrickle
from pgtrickle.embedded.server import start_embedded
from pgtrickle.service.capturing.drain_wal import drain_wal
from tests.embedded.conftest import home  # noqa: F401 - a fixture
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed

QUERY = "SELECT k, count(*) AS n, sum(id) AS total FROM t GROUP BY k"


def write(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_killed_server_delivers_again_and_nothing_is_written_twice(
    home: Path,  # noqa: F811 - as above
    duckdb_engine: DuckDbEngine,
):
    crashed = start_embedded(home)
    write(
        crashed.dsn,
        "ALTER SYSTEM SET checkpoint_timeout = '1h'",
        "CREATE TABLE t (id int PRIMARY KEY, k int)",
    )
    with pgtrickle.connect(crashed.dsn, engine=Borrowed(duckdb_engine), init=True) as trickle:
        trickle.create_stream_table("counts", QUERY, cdc_mode="wal")
        write(crashed.dsn, "INSERT INTO t SELECT i, i % 3 FROM generate_series(1, 100) AS i")
        trickle.refresh_stream_table("counts")
        write(crashed.dsn, "CHECKPOINT", "DELETE FROM t WHERE id <= 50")
        drain_wal(trickle._runtime)
        write(crashed.dsn, "UPDATE t SET k = k + 1 WHERE id > 90")
    os.kill(crashed.pid, signal.SIGKILL)

    with (
        start_embedded(home) as server,
        pgtrickle.connect(server.dsn, engine=Borrowed(duckdb_engine), init=True) as trickle,
    ):
        report = trickle.refresh_stream_table("counts")
        assert report.action.value == "DIFFERENTIAL", report.reason
        assert trickle.verify_stream_table("counts").ok
        write(server.dsn, "INSERT INTO t VALUES (1000, 1)")
        assert trickle.refresh_stream_table("counts").action.value == "DIFFERENTIAL"
        assert trickle.verify_stream_table("counts").ok
    crashed.stop()


def test_log_that_the_server_has_thrown_away_leads_to_triggers_and_a_rebuild(
    home: Path,  # noqa: F811 - as above
    duckdb_engine: DuckDbEngine,
):
    with (
        start_embedded(home) as server,
        pgtrickle.connect(server.dsn, engine=Borrowed(duckdb_engine), init=True) as trickle,
    ):
        write(
            server.dsn,
            "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'",
            "SELECT pg_reload_conf()",
            "CREATE TABLE t (id int PRIMARY KEY, k int)",
        )
        trickle.create_stream_table("counts", QUERY, cdc_mode="wal")
        write(server.dsn, "INSERT INTO t SELECT i, i % 3 FROM generate_series(1, 100) AS i")
        for _ in range(5):
            write(server.dsn, "SELECT pg_switch_wal()", "CREATE TABLE x (); DROP TABLE x")
        write(server.dsn, "CHECKPOINT")
        health = trickle.capture.slot_health()
        assert health is not None
        assert health.severity.value == "CRITICAL"
        assert "no longer keeps the log" in health.detail

        report = trickle.refresh_stream_table("counts")

        assert report.action.value == "REINITIALIZE"
        assert "no longer keeps the log" in report.reason
        assert trickle.verify_stream_table("counts").ok
        assert trickle.capture.slot_health() is None
        write(server.dsn, "INSERT INTO t VALUES (1000, 1)")
        assert trickle.refresh_stream_table("counts").action.value == "DIFFERENTIAL"
        assert trickle.verify_stream_table("counts").ok
