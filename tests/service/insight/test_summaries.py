"""The figures of a database in SQL and Python: in agreement with what they sum up."""

from __future__ import annotations

import random

import pytest

from pgtrickle.service.scheduling.leadership import standing_for_leader
from tests.labs.lab import Lab

RUNNING = "SELECT count(*) FROM pgtrickle.pgt_leases WHERE expires_at > clock_timestamp()"


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (a int)", "DELETE FROM pgtrickle.pgt_daemons")
    for number in range(4):
        lab.create(f"st{number}", f"SELECT count(*) + {number} AS n FROM t")
    return lab


def test_summary_of_a_database(shop: Lab):
    before = shop.trickle.insight.metrics_summary()
    shop.run("INSERT INTO t SELECT generate_series(1, 5)")
    shop.trickle.refresh_stream_table("st0")
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET status = 'SUSPENDED' WHERE pgt_name = 'st1'")
    found = shop.trickle.insight.metrics_summary()

    assert found.database == shop.value("SELECT current_database()")
    assert (found.stream_tables, found.active, found.suspended) == (4, 3, 1)
    assert found.refreshes == before.refreshes + 1
    assert (found.rows_inserted, found.rows_deleted) == (
        before.rows_inserted + 1,
        before.rows_deleted + 1,
    )
    assert found.p50_ms is not None
    assert found.p99_ms is not None
    assert 0 < found.p50_ms <= found.p99_ms
    [lag] = shop.trickle.capture.capture_lag()
    assert lag.source == "public.t"
    assert (found.buffer_rows, found.buffer_bytes) == (lag.buffer_rows, lag.buffer_bytes)
    assert found.slot_lag_bytes == 0
    assert shop.rows("SELECT * FROM pgtrickle.slot_health()") == []


def test_workers_are_consistent_whatever_has_crashed(shop: Lab):
    """Leases and signs of life of processes that come, work and die at random moments."""
    numbers = random.Random(20261119)
    ids = [one.id for one in shop.trickle.list_stream_tables()]
    owners = [f"host:{pid}:x" for pid in range(3)]
    for _ in range(40):
        owner, number = numbers.choice(owners), numbers.choice(ids)
        step = numbers.choice(["lease", "release", "expire", "live", "die"])
        if step == "lease":
            shop.run(
                "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
                f" VALUES ({number}, '{owner}', now(), now() + '1h'::interval)"
                " ON CONFLICT (pgt_id) DO NOTHING"
            )
        elif step == "release":
            shop.run(f"DELETE FROM pgtrickle.pgt_leases WHERE pgt_id = {number}")
        elif step == "expire":
            shop.run(
                "UPDATE pgtrickle.pgt_leases SET acquired_at = now() - '2h'::interval,"
                f" expires_at = now() - '1h'::interval WHERE owner = '{owner}'"
            )
        else:
            seen = "now()" if step == "live" else "now() - '1h'::interval"
            shop.run(
                "INSERT INTO pgtrickle.pgt_daemons (daemon, started_at, seen_at)"
                f" VALUES ('{owner}', now() - '2h'::interval, {seen})"
                " ON CONFLICT (daemon) DO UPDATE SET seen_at = excluded.seen_at"
            )
        workers = list(shop.trickle.insight.cluster_worker_summary())
        names = [one.daemon for one in workers]
        assert len(set(names)) == len(names)
        assert sum(one.refreshes_running for one in workers) == shop.value(RUNNING)
        alive = shop.value(
            "SELECT array_agg(daemon) FROM pgtrickle.pgt_daemons"
            " WHERE seen_at > now() - '10s'::interval"
        )
        assert set(alive or ()) <= set(names)
        assert all(one.refreshes_running for one in workers if one.started_at is None)
        assert sum(one.leads for one in workers) == 0
    shop.run("DELETE FROM pgtrickle.pgt_leases", "DELETE FROM pgtrickle.pgt_daemons")


def test_leader_is_the_first(shop: Lab):
    with standing_for_leader(shop.trickle._runtime):
        [first, *_] = shop.trickle.insight.cluster_worker_summary()

    assert first.leads
    assert first.daemon == shop.trickle._runtime.owner
    assert first.saturation is None
