"""A lake that is down: the stream table goes on, and the lake is right again after one delivery."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import LakeWriteError, TrickleError
from pgtrickle.lake.write import text_settings as session
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.hearing import PATIENCE
from tests.lake.shore import COPY, SUMS, Shore

_DUE = (
    "UPDATE pgtrickle.pgt_ducklake_sink_delivery"
    " SET next_attempt_at = now() WHERE status <> 'DELIVERED'"
)


@contextmanager
def down(shore: Shore) -> Iterator[None]:
    """Put a file where the lake's directory was, so that nobody can write there, root neither."""
    aside = shore.path.with_name(f"{shore.path.name}-aside")
    shore.path.rename(aside)
    shore.path.write_text("not a directory")
    try:
        yield
    finally:
        shore.path.unlink()
        shutil.move(aside, shore.path)


def test_lake_that_was_down_for_twenty_refreshes_is_right_after_one_delivery(shore: Shore):
    shore.create("copy", COPY)
    before = shore.in_lake("copy")
    with down(shore):
        for number in range(20):
            shore.run(
                f"UPDATE t SET s = 'r{number}' WHERE id % 7 = {number % 7}",
                f"DELETE FROM t WHERE id = {number * 4 + 1}",
                f"INSERT INTO t VALUES ({1000 + number}, 1, 1, 'n')",
                f"DELETE FROM t WHERE id = {1000 + number - 3}",
                "VACUUM copy",
            )
            shore.trickle.refresh_stream_table("copy")
    assert shore.in_lake("copy") == before
    assert shore.tell("SELECT count(*) FROM copy") == [(83,)]

    status = shore.trickle.lake.retry_sink("copy")

    shore.check("copy")
    assert status.status.value == "DELIVERED"
    assert len(shore.ask("SELECT * FROM lake.snapshots()")) == 3
    shore.window("copy", "UPDATE t SET s = 'after' WHERE id < 30")


def test_failures_that_last_are_counted_until_they_are_permanent_and_an_alert_tells(shore: Shore):
    settings = load_settings(
        {},
        dsn=shore.trickle.dsn,
        ducklake_catalog_schema="lake",
        ducklake_sink_max_retries=2,
        ducklake_sink_retry_seconds=0.0,
    )
    shore.create("sums", SUMS)
    seen = []
    with (
        psycopg.connect(shore.trickle.dsn, autocommit=True) as listener,
        pgtrickle.connect(engine=Borrowed(DuckDbEngine()), settings=settings) as trickle,
    ):
        listener.execute("LISTEN pg_trickle_alert")
        shore.run("ALTER SCHEMA lake RENAME TO hidden")
        for number in range(4):
            shore.run(f"UPDATE t SET v = {number} WHERE id = 1")
            trickle.refresh_stream_table("sums")
            seen.append(shore.status()[:2])
        alerts = [note.payload for note in listener.notifies(timeout=PATIENCE, stop_after=1)]

    assert seen == [
        ("FAILED_RETRYABLE", 1),
        ("FAILED_RETRYABLE", 2),
        ("FAILED_PERMANENT", 3),
        ("FAILED_PERMANENT", 3),
    ]
    assert "ducklake_sink_failed" in alerts[0]
    assert "public.sums" in alerts[0]
    shore.run("ALTER SCHEMA hidden RENAME TO lake")
    shore.trickle.refresh_stream_table("sums")
    assert shore.status()[0] == "FAILED_PERMANENT"
    shore.trickle.lake.retry_sink("sums")
    shore.check("sums")


def test_retry_waits_and_the_next_refresh_after_that_delivers(shore: Shore):
    shore.create("sums", SUMS)
    with down(shore):
        shore.run("UPDATE t SET v = 0 WHERE id = 1")
        shore.trickle.refresh_stream_table("sums")
    shore.run("UPDATE t SET v = 1 WHERE id = 2")
    shore.run(
        "UPDATE pgtrickle.pgt_ducklake_sink_delivery"
        " SET next_attempt_at = now() + interval '1 hour' WHERE status <> 'DELIVERED'"
    )
    shore.trickle.refresh_stream_table("sums")
    assert shore.status()[:2] == ("FAILED_RETRYABLE", 1)

    shore.run(_DUE)
    shore.trickle.refresh_stream_table("sums")

    shore.check("sums")
    assert shore.status() == ("DELIVERED", 0, None)


def test_daemon_delivers_what_is_due_although_no_source_changes(shore: Shore):
    shore.create("sums", SUMS)
    with down(shore):
        shore.run("UPDATE t SET v = 0 WHERE id = 1")
        shore.trickle.refresh_stream_table("sums")
        shore.run(_DUE)
        shore.trickle.daemon.tend_lake()
        assert shore.status()[:2] == ("FAILED_RETRYABLE", 2)
    shore.trickle.daemon.tend_lake()
    assert shore.status()[:2] == ("FAILED_RETRYABLE", 2)  # not yet

    shore.run(_DUE)
    shore.trickle.daemon.tend_lake()

    shore.check("sums")


def test_mode_error_fails_the_refresh_and_keeps_table_and_lake_equal(shore: Shore):
    shore.create("sums", SUMS)
    settings = load_settings(
        {},
        dsn=shore.trickle.dsn,
        ducklake_catalog_schema="lake",
        ducklake_sink_failure_mode="error",
    )
    shore.run("UPDATE t SET v = 0")
    with pgtrickle.connect(engine=Borrowed(DuckDbEngine()), settings=settings) as trickle:
        with down(shore), pytest.raises(LakeWriteError):
            trickle.refresh_stream_table("sums")
        shore.check("sums")
        trickle.refresh_stream_table("sums")
    shore.check("sums")


def test_catalog_that_was_dropped_fails_the_delivery_and_not_the_refresh(shore: Shore):
    shore.create("sums", SUMS)
    shore.run("DROP SCHEMA lake CASCADE", "UPDATE t SET v = 0 WHERE id = 1")

    report = shore.trickle.refresh_stream_table("sums")

    assert report.rows_inserted == 1
    assert "ST701" in (shore.status()[2] or "")


def test_lake_table_that_was_dropped_is_made_again(shore: Shore):
    shore.create("sums", SUMS)
    shore.ask("DROP TABLE sums")

    shore.window("sums", "UPDATE t SET v = 0 WHERE id = 1")


def test_first_load_that_cannot_be_delivered_is_delivered_later(shore: Shore):
    shore.trickle.create_stream_table("sums", SUMS, sink="ducklake", initialize=False)
    with down(shore):
        shore.trickle.refresh_stream_table("sums")
        assert shore.status()[0] == "FAILED_RETRYABLE"
    shore.run("UPDATE t SET v = 0 WHERE id = 1")
    shore.trickle.refresh_stream_table("sums")
    shore.trickle.lake.retry_sink("sums")

    shore.check("sums")


def test_load_that_is_under_way_is_shown_to_others(shore: Shore):
    shore.trickle.create_stream_table("sums", SUMS)
    turned_on = threading.Thread(
        target=lambda: shore.trickle.alter_stream_table("sums", sink="ducklake")
    )
    with psycopg.connect(shore.trickle.dsn) as blocker:
        blocker.execute("LOCK TABLE lake.ducklake_snapshot IN ROW EXCLUSIVE MODE")
        turned_on.start()
        assert _reaches(shore, "WRITING")
    turned_on.join()

    assert shore.status() == ("DELIVERED", 0, None)
    shore.check("sums")


def _reaches(shore: Shore, status: str) -> bool:
    """Wait until the only sink has a status, in which the lock keeps it for seconds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = shore.tell("SELECT status FROM pgtrickle.ducklake_sink_status()")
        if found == [(status,)]:
            return True
        time.sleep(0.05)
    return False


def test_retry_of_a_stream_table_without_a_sink_is_refused(shore: Shore):
    shore.trickle.create_stream_table("sums", SUMS)

    with pytest.raises(TrickleError):
        shore.trickle.lake.retry_sink("sums")


def test_lock_on_the_catalog_is_not_waited_for_without_end(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(session._SETTINGS, "lock_timeout", "1s")
    shore.create("sums", SUMS)
    shore.run("UPDATE t SET v = 0 WHERE id = 1")
    with psycopg.connect(shore.trickle.dsn) as blocker:
        blocker.execute("LOCK TABLE lake.ducklake_snapshot IN ROW EXCLUSIVE MODE")
        shore.trickle.refresh_stream_table("sums")

    assert shore.status()[0] == "FAILED_RETRYABLE"
    shore.trickle.lake.retry_sink("sums")
    shore.check("sums")
