"""Stream tables over stream tables (scenarios.md: P42)."""

from __future__ import annotations

import threading

import pytest

from pgtrickle.errors import DependentsExistError
from pgtrickle.scheduler.loop import Loop, worker_threads
from tests.labs.lab import Lab
from tests.scheduler.shop import Watched


@pytest.fixture
def chain(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int, v int)")
    lab.run("INSERT INTO t SELECT i, i % 5, i FROM generate_series(1, 100) AS i")
    lab.create("sums", "SELECT k, sum(v) AS total FROM t GROUP BY k")
    lab.create("top", "SELECT max(total) AS best, count(*) AS groups FROM sums")
    return lab


def test_p42_changes_flow_through_three_levels(chain: Lab):
    chain.create("alarm", "SELECT best FROM top WHERE best > 1050")

    chain.window("UPDATE t SET v = v + 1 WHERE id = 100")
    chain.window("DELETE FROM t WHERE k = 0", "INSERT INTO t VALUES (200, 9, 5000)")
    chain.window("DELETE FROM t")


def test_p42_full_refresh_of_a_parent_gives_the_child_only_the_difference(chain: Lab):
    chain.run("UPDATE t SET v = v + 1 WHERE id = 100")

    parent = chain.trickle.refresh_stream_table("sums", full=True)
    child = chain.refresh("top")

    assert parent.action.value == "FULL"
    assert (parent.rows_inserted, parent.rows_deleted) == (1, 1)
    assert [(read.source, read.kind, read.rows) for read in child.reads] == [
        ("public.sums", "changes", 2)
    ]


def test_p42_full_refresh_without_a_change_does_not_touch_the_child(chain: Lab):
    parent = chain.trickle.refresh_stream_table("sums", full=True)
    child = chain.refresh("top", action="NO_DATA")

    assert (parent.action.value, parent.rows_inserted, parent.rows_deleted) == ("FULL", 0, 0)
    assert child.reads == ()


def test_p42_no_data_of_a_parent_does_not_touch_the_child(chain: Lab):
    chain.window(action="NO_DATA")


def test_p42_parent_that_changed_without_effect_does_not_touch_the_child(chain: Lab):
    chain.run("UPDATE t SET v = v + 1 WHERE id = 100", "UPDATE t SET v = v - 1 WHERE id = 5")

    parent = chain.refresh("sums")
    chain.refresh("top", action="NO_DATA")

    assert (parent.rows_inserted, parent.rows_deleted) == (0, 0)


def test_p42_truncated_parent_source_gives_the_child_a_differential_refresh(chain: Lab):
    chain.run("TRUNCATE t")

    chain.refresh("sums", action="FULL")
    chain.refresh("top")


def test_diamond_joins_both_branches(lab: Lab):
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int, v int)")
    lab.run("INSERT INTO t SELECT i, i % 3, i FROM generate_series(1, 30) AS i")
    lab.create("low", "SELECT k, min(v) AS v FROM t GROUP BY k")
    lab.create("high", "SELECT k, max(v) AS v FROM t GROUP BY k")
    lab.create(
        "range", "SELECT l.k, l.v AS low, h.v AS high FROM low AS l JOIN high AS h USING (k)"
    )

    lab.window("DELETE FROM t WHERE v IN (1, 30)", "INSERT INTO t VALUES (99, 7, 7)")
    lab.window("DELETE FROM t WHERE k = 0")


def test_parent_with_children_is_dropped_only_with_cascade(chain: Lab):
    with pytest.raises(DependentsExistError, match="read"):
        chain.trickle.drop_stream_table("sums")
    dropped = chain.trickle.drop_stream_table("sums", cascade=True)

    assert dropped == ["public.top", "public.sums"]
    assert chain.leftovers() == []


def test_consumed_changes_are_trimmed_beside_a_view(lab: Lab):
    lab.run(
        "CREATE TABLE t (id int)",
        "CREATE VIEW a AS SELECT id FROM t WHERE id > 0",
        "CREATE TABLE u (id int)",
    )
    lab.create("s", "SELECT count(*) AS n FROM a JOIN u ON u.id = a.id")
    buffer = lab.value("SELECT 'pgtrickle_changes.changes_' || 'u'::regclass::oid::bigint")

    lab.window("INSERT INTO t VALUES (1), (2)", "INSERT INTO u VALUES (1)")

    assert lab.value(f"SELECT count(*) FROM {buffer}") == 0


def test_change_goes_down_a_chain_of_twenty_in_one_pass(lab: Lab):
    lab.run("CREATE TABLE t (a int)")
    below = "t"
    for number in range(20):
        lab.create(f"level_{number}", f"SELECT a + 1 AS a FROM {below}")
        below = f"level_{number}"
    lab.run("INSERT INTO t VALUES (1), (2)")
    lab.run("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval")
    watched = Watched()

    Loop(lab.trickle.daemon, watched, workers=lambda: worker_threads(4)).run_once(threading.Event())

    assert watched.failures == []
    assert watched.refreshed_names == [f"public.level_{number}" for number in range(20)]
    assert lab.rows("SELECT a FROM level_19") == [(21,), (22,)]
