"""Old snapshots are dropped if somebody wants that; the newest of a stream table stays."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from pgtrickle.service.scheduling.prune import drop_old_snapshots
from tests.labs.lab import Lab


@pytest.fixture
def saved(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    lab.create("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")
    for age, name in ((30, "first"), (20, "second"), (10, "third")):
        lab.trickle.snapshots.snapshot_stream_table("counts", name)
        lab.run(
            f"UPDATE pgtrickle.pgt_snapshots SET created_at = now() - interval '{age} days'"
            f" WHERE snapshot_table = '{name}'"
        )
    return lab


def prune(lab: Lab, monkeypatch: pytest.MonkeyPatch, days: int) -> int:
    runtime = lab.trickle._runtime
    settings = replace(runtime.settings, snapshot_retention_days=days)
    monkeypatch.setattr(runtime, "settings", settings)
    return drop_old_snapshots(runtime)


def names(lab: Lab) -> list[str]:
    return [one.snapshot_table for one in lab.trickle.snapshots.list_snapshots()]


@pytest.mark.parametrize(
    ("days", "left"),
    [
        (0, ["first", "second", "third"]),
        (25, ["second", "third"]),
        (15, ["third"]),
        (5, ["third"]),
    ],
)
def test_old_snapshots_go_but_the_newest(
    saved: Lab, monkeypatch: pytest.MonkeyPatch, days: int, left: list[str]
) -> None:
    assert prune(saved, monkeypatch, days) == 3 - len(left)
    assert names(saved) == left
    tables = saved.rows(
        "SELECT relname FROM pg_class WHERE relname IN ('first', 'second', 'third')"
    )
    assert sorted(left) == [name for (name,) in tables]


def test_one_that_others_need_stays_and_is_named(
    saved: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    saved.run("CREATE VIEW old AS SELECT * FROM first")

    with caplog.at_level(logging.WARNING):
        assert prune(saved, monkeypatch, 15) == 1

    assert names(saved) == ["first", "third"]
    assert [record.__dict__["snapshot"] for record in caplog.records] == ["public.first"]
