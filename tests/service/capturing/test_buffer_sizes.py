"""Buffers that grow: compaction, alerts, consumers that are given up, writers that are slowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest

from pgtrickle.service.capturing.trim import trim_sources
from tests.labs.hearing import heard
from tests.labs.lab import Lab

T = (
    "CREATE TABLE t (id int, k int, v numeric, j json)",
    "INSERT INTO t SELECT i, i % 3, i, '{\"a\": 1}' FROM generate_series(1, 9) AS i",
)
COUNTS = "SELECT k, count(*) AS n, sum(v) AS total FROM t GROUP BY k"
COPY = "SELECT id, k, v::text AS v, j::text AS j FROM t"


@pytest.fixture
def limited(lab: Lab) -> Iterator[Callable[..., Lab]]:
    """Set limits that a test reaches."""
    runtime = lab.trickle._runtime
    before = runtime.settings
    lab.run(*T)

    def limit(**settings: object) -> Lab:
        runtime.settings = replace(before, **settings)  # type: ignore[arg-type]
        return lab

    yield limit
    runtime.settings = before


def relid(lab: Lab) -> int:
    found: int = lab.value("SELECT 't'::regclass::oid::int8")
    return found


def buffered(lab: Lab) -> int:
    found: int = lab.value(f"SELECT count(*) FROM pgtrickle_changes.changes_{relid(lab)}")
    return found


def look(lab: Lab) -> None:
    trim_sources(lab.trickle._runtime, [relid(lab)])


def test_p10_compaction_cancels_only_what_every_consumer_has_read_or_none(
    limited: Callable[..., Lab],
):
    lab = limited(compact_threshold=1)
    lab.create("counts", COUNTS)
    lab.create("copy", COPY)
    lab.run("INSERT INTO t VALUES (10, 1, 10, '1'), (11, 1, 11, '1')")
    lab.refresh("counts")  # has read the insertions, copy has not
    lab.run("DELETE FROM t WHERE id = 10", "UPDATE t SET k = 2 WHERE id = 11")
    lab.run("UPDATE t SET k = 1 WHERE id = 11")

    assert buffered(lab) == 2 + 1 + 2 + 2
    look(lab)

    # The two updates cancel out for both; the deletion and its insertion for copy alone.
    assert buffered(lab) == 3
    lab.refresh("counts")
    lab.refresh("copy")
    assert buffered(lab) == 0


def test_p09_compaction_keeps_equal_rows_apart(limited: Callable[..., Lab]):
    lab = limited(compact_threshold=1)
    lab.create("copy", COPY)
    for _ in range(3):
        lab.run("INSERT INTO t VALUES (20, 1, 1.0, '{}')")
    lab.run(
        "DELETE FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 20 LIMIT 1)",
        "INSERT INTO t VALUES (20, 1, 1.00, '{}')",
    )

    look(lab)

    assert buffered(lab) == 3
    lab.refresh("copy")
    assert lab.value("SELECT count(*) FROM copy WHERE id = 20") == 3


def test_values_that_look_different_do_not_cancel(limited: Callable[..., Lab]):
    lab = limited(compact_threshold=1)
    lab.create("copy", COPY)
    lab.run("INSERT INTO t VALUES (20, 1, 1.0, '{}')")
    lab.refresh("copy")
    lab.run("UPDATE t SET v = 1.00 WHERE id = 20", "UPDATE t SET j = '{ }' WHERE id = 20")

    look(lab)

    assert buffered(lab) == 2
    lab.refresh("copy")


def test_compaction_leaves_a_buffer_alone_that_is_being_read(limited: Callable[..., Lab]):
    lab = limited(compact_threshold=1)
    lab.create("copy", COPY)
    lab.run("INSERT INTO t VALUES (30, 1, 1, '1')")

    def meanwhile() -> None:
        # The refresh under way has the insertion in its window, and not the deletion.
        lab.run("DELETE FROM t WHERE id = 30")
        before = buffered(lab)
        look(lab)
        assert buffered(lab) == before == 2

    lab.run("INSERT INTO t VALUES (31, 1, 1, '1')", "DELETE FROM t WHERE id = 31")
    look(lab)
    assert buffered(lab) == 1
    lab.before_next_stage(meanwhile)
    lab.trickle.refresh_stream_table("copy")
    assert lab.rows("SELECT id FROM copy WHERE id >= 30") == [(30,)]
    lab.refresh("copy")


def test_compaction_waits_until_the_buffer_has_doubled(limited: Callable[..., Lab]):
    lab = limited(compact_threshold=4)
    lab.create("copy", COPY)
    lab.run("INSERT INTO t SELECT i, 0, 0, '1' FROM generate_series(100, 105) AS i")
    look(lab)
    [(remembered,)] = lab.rows("SELECT compacted_rows FROM pgtrickle.pgt_change_tracking")
    lab.run("DELETE FROM t WHERE id = 100")
    look(lab)
    assert (remembered, buffered(lab)) == (6, 7)

    lab.run("DELETE FROM t WHERE id > 100")
    look(lab)
    assert buffered(lab) == 0
    lab.refresh("copy", "NO_DATA")


def alerts_of(lab: Lab, act: Callable[[], object]) -> list[dict[str, object]]:
    with psycopg.connect(lab.trickle.dsn, autocommit=True) as listener:
        listener.execute("LISTEN pg_trickle_alert")
        act()
        return [json.loads(one) for one in heard(lab, listener, "pg_trickle_alert")]


def test_growth_is_told_once_until_the_buffer_is_small_again(limited: Callable[..., Lab]):
    lab = limited(compact_threshold=0, buffer_alert_threshold=5)
    lab.create("copy", COPY)
    lab.run("INSERT INTO t SELECT i, 0, 0, '1' FROM generate_series(100, 105) AS i")

    def look_twice() -> None:
        look(lab)
        look(lab)

    told = alerts_of(lab, look_twice)

    assert told == [{"event": "buffer_growth_warning", "source": "public.t", "rows": 6}]
    assert [one.alert for one in lab.trickle.capture.check_cdc_health()] == ["buffer_growth"]
    lab.refresh("copy")
    assert [one.alert for one in lab.trickle.capture.check_cdc_health()] == [None]
    lab.run("INSERT INTO t SELECT i, 0, 0, '1' FROM generate_series(200, 205) AS i")
    assert len(alerts_of(lab, lambda: look(lab))) == 1


def test_scheduler_looks_at_buffers_that_nobody_refreshes(limited: Callable[..., Lab]):
    lab = limited(compact_threshold=0, buffer_alert_threshold=5)
    lab.create("copy", COPY)
    lab.trickle.alter_stream_table("copy", status="SUSPENDED")
    lab.run("INSERT INTO t SELECT i, 0, 0, '1' FROM generate_series(100, 105) AS i")
    lab.trickle._runtime.buffers_watched = 0.0 - float("inf")

    assert len(alerts_of(lab, lambda: lab.trickle.daemon.find_idle([]))) == 1


def test_consumer_that_is_too_far_behind_starts_anew_and_frees_the_buffer(
    limited: Callable[..., Lab],
):
    lab = limited(compact_threshold=0, max_buffer_rows=5, backpressure_consecutive_limit=2)
    lab.create("counts", COUNTS)
    lab.create("copy", COPY)
    lab.run("INSERT INTO t SELECT i, 0, 0, '1' FROM generate_series(100, 109) AS i")
    lab.refresh("counts")
    assert buffered(lab) == 10

    told = alerts_of(lab, lambda: look(lab))
    assert [one["event"] for one in told] == ["change_buffer_overflow"]
    look(lab)
    assert buffered(lab) == 0

    lab.run("INSERT INTO t VALUES (300, 1, 1, '1')")
    lab.refresh("counts")
    report = lab.refresh("copy", "REINITIALIZE")
    assert "changes of public.t are missing: its buffer had more than 5 rows" in report.reason
    lab.window("INSERT INTO t VALUES (301, 1, 1, '1')")


def test_one_consumer_after_the_other_is_given_up(limited: Callable[..., Lab]):
    lab = limited(compact_threshold=0, max_buffer_rows=5, backpressure_consecutive_limit=1)
    lab.create("counts", COUNTS)
    lab.create("copy", COPY)
    for number in range(4):
        lab.run(f"INSERT INTO t SELECT {number}, 0, 0, '1' FROM generate_series(1, 8)")
        if number == 0:
            lab.refresh("copy")  # is ahead of counts, and then neither is refreshed
        look(lab)
        look(lab)

    assert buffered(lab) <= 8
    lab.refresh("counts", "REINITIALIZE")
    lab.refresh("copy", "REINITIALIZE")


def test_overflow_during_a_refresh_does_not_lose_what_comes_after_its_snapshot(
    limited: Callable[..., Lab],
):
    lab = limited(compact_threshold=0, max_buffer_rows=1, backpressure_consecutive_limit=1)
    lab.create("copy", COPY)
    lab.create("counts", COUNTS)
    lab.run("INSERT INTO t SELECT i, 0, 0, '1' FROM generate_series(100, 109) AS i")

    def meanwhile() -> None:
        lab.run("INSERT INTO t VALUES (400, 1, 1, '1')")
        look(lab)
        look(lab)

    lab.before_next_stage(meanwhile)
    lab.trickle.refresh_stream_table("copy")
    lab.refresh("copy", "REINITIALIZE")
    lab.refresh("counts", "REINITIALIZE")
    lab.window("INSERT INTO t VALUES (401, 1, 1, '1')")


def test_back_pressure_holds_writers_up_until_the_buffer_is_small(limited: Callable[..., Lab]):
    lab = limited(
        compact_threshold=0,
        max_buffer_rows=5,
        enforce_backpressure=True,
        backpressure_consecutive_limit=2,
        backpressure_delay_ms=1500,
    )
    lab.create("copy", COPY)
    lab.run("INSERT INTO t SELECT i, 0, 0, '1' FROM generate_series(100, 109) AS i")
    look(lab)
    quick = seconds_of_a_write(lab)
    told = alerts_of(lab, lambda: look(lab))
    slow = seconds_of_a_write(lab)

    assert [one["event"] for one in told] == ["change_buffer_overflow"]
    assert quick < 1.5 <= slow
    assert [one.alert for one in lab.trickle.capture.check_cdc_health()] == ["writers_delayed"]
    lab.refresh("copy")
    assert seconds_of_a_write(lab) < 1.5
    lab.refresh("copy")


def seconds_of_a_write(lab: Lab) -> float:
    before = lab.value("SELECT clock_timestamp()")
    lab.run("INSERT INTO t VALUES (500, 1, 1, '1')")
    found: float = (lab.value("SELECT clock_timestamp()") - before).total_seconds()
    return found
