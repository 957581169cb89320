"""The copy of a stream table that its writers maintain: it follows now and then, as a whole."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from pgtrickle.service.immediate.copies import request_lagging_copies
from pgtrickle.service.sinks.ducklake.news import SinkWatch
from pgtrickle.service.sinks.ducklake.tend import tend_lake
from tests.lake.shore import COPY, SUMS, Shore


def tend(shore: Shore) -> None:
    """Do what a daemon does after a minute."""
    runtime = shore.trickle._runtime
    request_lagging_copies(runtime, timedelta(0))
    tend_lake(runtime, SinkWatch())


def deliveries(shore: Shore) -> int:
    [(count,)] = shore.tell("SELECT count(*) FROM pgtrickle.pgt_ducklake_sink_delivery")
    return int(count)


@pytest.mark.parametrize("query", [COPY, SUMS])
def test_a_daemon_brings_the_copy_up_to_date(shore: Shore, query: str):
    shore.create("made", query, "IMMEDIATE")
    before = shore.in_lake("made")

    shore.run("UPDATE t SET v = v + 1 WHERE id < 10", "DELETE FROM t WHERE k = 3")
    assert shore.in_lake("made") == before
    tend(shore)
    shore.check("made")
    assert shore.status()[0] == "DELIVERED"
    known = deliveries(shore)
    tend(shore)
    assert deliveries(shore) == known
    shore.run("INSERT INTO t VALUES (200, 3, 1, 'x'), (201, 3, 1, 'x')")
    request_lagging_copies(shore.trickle._runtime)
    assert deliveries(shore) == known  # the last one was a moment ago
    tend(shore)
    shore.check("made")


def test_a_refresh_by_hand_delivers(shore: Shore):
    shore.create("made", SUMS, "IMMEDIATE")

    shore.window("made", "UPDATE t SET v = v + 1 WHERE id < 10")
    known = deliveries(shore)
    tend(shore)
    assert deliveries(shore) == known


def test_writers_that_have_not_committed_are_waited_for(shore: Shore):
    for name, query in (("made", COPY), ("summed", SUMS), ("counted", "SELECT count(*) FROM t")):
        shore.create(name, query, "IMMEDIATE")
    known = deliveries(shore)

    with psycopg.connect(shore.trickle.dsn) as writer:
        writer.execute("UPDATE t SET v = v + 1 WHERE id < 10")
        tend(shore)
        assert deliveries(shore) == known
        writer.commit()
    tend(shore)
    for name in ("made", "summed", "counted"):
        shore.check(name)


def test_modes_and_sinks_change(shore: Shore):
    shore.create("made", SUMS)
    shore.window("made", "UPDATE t SET v = v + 1 WHERE id < 10")

    shore.trickle.alter_stream_table("made", refresh_mode="IMMEDIATE")
    shore.run("DELETE FROM t WHERE id < 20")
    tend(shore)
    shore.check("made")
    shore.run("DELETE FROM t WHERE id < 30")
    shore.trickle.alter_stream_table("made", refresh_mode="DIFFERENTIAL")
    shore.window("made", "UPDATE t SET v = v + 1 WHERE id < 40")

    shore.trickle.create_stream_table("late", COPY, refresh_mode="IMMEDIATE")
    shore.trickle.alter_stream_table("late", sink="ducklake")
    tend(shore)
    shore.check("late")
    shore.run("DELETE FROM t WHERE id < 50")
    tend(shore)
    shore.check("late")
    shore.trickle.alter_stream_table("late", sink="none")
    shore.run("DELETE FROM t WHERE id < 60")
    tend(shore)
    assert shore.trickle.verify_stream_table("late").ok
