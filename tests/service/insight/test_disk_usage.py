"""What everything takes on disk: nothing is left out, nothing counted twice."""

from __future__ import annotations

from tests.labs.lab import Lab

SIZES = """
    SELECT sum(pg_total_relation_size(oid)) FROM pg_class
     WHERE relkind = 'r' AND (relnamespace::regnamespace::text IN
               ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state')
           OR oid IN ('counts'::regclass, 'saved'::regclass))
"""


def test_all_tables_are_counted_once(lab: Lab) -> None:
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    lab.create("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")
    lab.run("INSERT INTO t SELECT n, n FROM generate_series(3, 2000) AS n")
    lab.trickle.snapshots.snapshot_stream_table("counts", "saved")

    found = lab.trickle.insight.disk_usage()

    assert sum(one.bytes for one in found) == lab.value(SIZES)
    of = {one.kind: one for one in reversed(found)}
    assert (of["contents"].name, of["contents"].stream_table) == ("public.counts",) * 2
    assert (of["buffer"].name, of["buffer"].bytes > 50_000) == ("public.t", True)
    assert of["state"].stream_table == of["snapshot"].stream_table == "public.counts"
    assert of["history"].retention == "history_retention_days"
    assert {"requests", "profiles", "catalog"} <= of.keys()
    assert [one.bytes for one in found] == sorted((one.bytes for one in found), reverse=True)


def test_the_table_of_an_unknown_owner_is_shown_as_other(lab: Lab) -> None:
    lab.run("CREATE TABLE pgtrickle_state.strange (a int)")

    [strange] = [one for one in lab.trickle.insight.disk_usage() if one.name == "strange"]

    assert (strange.kind, strange.stream_table) == ("other", None)
