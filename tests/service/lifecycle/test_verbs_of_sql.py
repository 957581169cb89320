"""Verbs that SQL has, from Python."""

from __future__ import annotations

import pytest

from pgtrickle import RefreshMode, __version__
from pgtrickle.errors import (
    RequestRefusedError,
    StatusForbidsError,
    StreamTableNotFoundError,
    TrickleError,
)
from tests.labs.lab import Lab

QUERY = "SELECT count(*) AS n FROM t"


@pytest.fixture
def counted(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (a int)")
    lab.create("counted", QUERY)
    return lab


def test_create_if_not_exists_leaves_alone_what_is_there(counted: Lab):
    trickle = counted.trickle

    left = trickle.create_stream_table_if_not_exists("counted", "SELECT 1 AS one")
    made = trickle.create_stream_table_if_not_exists(
        "other", QUERY, schedule="5m", refresh_mode=RefreshMode.FULL, initialize=False
    )

    assert (left.status, made.status, made.report) == ("exists", "created", None)
    assert trickle.get_stream_table("counted").original_query == QUERY
    assert trickle.get_stream_table("other").schedule == "5m"


def test_bulk_create_makes_all(counted: Lab):
    made = counted.trickle.bulk_create(
        [
            {"name": "one", "query": QUERY, "refresh_mode": RefreshMode.FULL},
            {"name": "two", "query": "SELECT n FROM one", "schedule": "5m"},
        ]
    )

    assert [str(one.name) for one in made] == ["public.one", "public.two"]
    assert made[1].schedule == "5m"


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ({"name": "two", "query": "SELECT nothing FROM t"}, TrickleError),
        ({"name": "two"}, RequestRefusedError),
        ({"name": "two", "query": QUERY, "nonsense": 1}, RequestRefusedError),
        ({"name": "two", "query": 7}, RequestRefusedError),
    ],
)
def test_bulk_create_makes_none_if_one_fails(
    counted: Lab, bad: dict[str, object], kind: type[TrickleError]
):
    with pytest.raises(kind) as caught:
        counted.trickle.bulk_create([{"name": "one", "query": QUERY}, bad])  # type: ignore[list-item]

    assert caught.value.detail.startswith("This is number 1, counted from 0.")
    assert [str(one.name) for one in counted.trickle.list_stream_tables()] == ["public.counted"]


def test_several_are_altered_and_dropped_at_once(counted: Lab):
    trickle = counted.trickle
    trickle.create_stream_table("other", QUERY)

    altered = trickle.bulk_alter_stream_tables(["counted", "other"], schedule="7m")
    assert {one.schedule for one in altered} == {"7m"}
    with pytest.raises(StreamTableNotFoundError):
        trickle.bulk_drop_stream_tables(["counted", "nothing"])
    assert trickle.bulk_drop_stream_tables(["counted", "other"]) == [
        "public.counted",
        "public.other",
    ]
    counted.queries.clear()


def test_suspended_stream_table_is_resumed_and_others_are_not(counted: Lab):
    with pytest.raises(StatusForbidsError, match="is not suspended"):
        counted.trickle.resume_stream_table("counted")
    counted.trickle.alter_stream_table("counted", status="SUSPENDED")

    assert counted.trickle.resume_stream_table("counted").status.value == "ACTIVE"


def test_what_sql_tells_python_tells(counted: Lab):
    counted.window("INSERT INTO t VALUES (1)")
    trickle = counted.trickle

    assert [one.source_table for one in trickle.insight.list_sources("counted")] == ["public.t"]
    staleness = trickle.insight.get_staleness("counted")
    assert staleness is not None
    assert 0 <= staleness < 300
    assert trickle.insight.stream_table_spec("counted")["schedule"] == "calculated"
    assert [one.source_table for one in trickle.capture.change_buffer_sizes()] == ["public.t"]
    [efficiency] = trickle.insight.refresh_efficiency()
    assert (efficiency.stream_table, efficiency.differential_count) == ("public.counted", 1)
    [level] = trickle.insight.sla_summary(1)
    assert level.error_rate == 0
    assert trickle.insight.diamond_groups() == []
    assert "counted" in trickle.insight.explain_dag()
    assert "digraph" in trickle.insight.explain_dag("dot")
    assert trickle.insight.explain_delta("counted").startswith("-- stage ")
    passes = trickle.insight.explain_query_rewrite(QUERY)["passes"]
    assert [one["pass"] for one in passes] == ["bind", "lower", "cut"]
    assert trickle.scheduler.is_drained() is False


def test_version_is_that_of_package_catalog_and_server(counted: Lab):
    found = counted.trickle.version()

    assert found.package == __version__
    assert found.catalog > 0
    assert found.server.split(".")[0].isdigit()
    assert found.daemon_running is False
