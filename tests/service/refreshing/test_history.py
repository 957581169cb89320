"""History is read and pruned by its indexes, however long it is; a task of its own prunes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from pgtrickle.catalog.refreshes.history import list_refresh_statistics, prune_refreshes
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab

YEARS = 10_000  # rows, one an hour


@pytest.fixture
def old(lab: Lab) -> Lab:
    """Create a stream table with a long history, nearly all of it older than a day."""
    lab.run("CREATE TABLE t (id int PRIMARY KEY)")
    lab.create("counts", "SELECT count(*) AS n FROM t")
    lab.run(
        "INSERT INTO pgtrickle.pgt_refresh_history"
        " (pgt_id, start_time, end_time, action, status, reason, initiated_by,"
        " rows_inserted, rows_deleted, delta_row_count, reads, timings)"
        " SELECT s.pgt_id, m, m + interval '1 s', 'NO_DATA', 'COMPLETED', 'so it was', 'SCHEDULER',"
        " 0, 0, 0, '[]', '{}'"
        " FROM pgtrickle.pgt_stream_tables AS s,"
        f" LATERAL (SELECT now() - make_interval(hours => n) FROM generate_series(1, {YEARS}) AS n)"
        " AS moments (m)",
        "ANALYZE pgtrickle.pgt_refresh_history",
    )
    return lab


def _read_sla(lab: Lab) -> object:
    return lab.rows("SELECT name, refreshes FROM pgtrickle.sla_summary(24)")


def _read_statistics(lab: Lab) -> object:
    found = list_refresh_statistics(lab.connection, timedelta(hours=24))
    return [(str(one.stream_table), one.refreshes) for one in found]


def _prune_nothing(lab: Lab) -> object:
    return prune_refreshes(lab.connection, timedelta(hours=2 * YEARS), 10_000)


def rows_read(lab: Lab) -> tuple[int, int]:
    """Return how many rows of the history this session has scanned, and how many by an index.

    The session tells the server only between transactions, so inside one the two can be compared.
    """
    [(scanned, fetched)] = lab.rows(
        "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables"
        " WHERE relid = 'pgtrickle.pgt_refresh_history'::regclass"
    )
    return scanned, fetched


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        pytest.param(_read_sla, [("public.counts", 24)], id="sla_summary"),
        pytest.param(_read_statistics, [("public.counts", 24)], id="statistics"),
        pytest.param(_prune_nothing, 0, id="nothing to prune"),
    ],
)
def test_long_history_is_not_read_whole(old: Lab, ask: Callable[[Lab], object], answer: object):
    with old.connection.transaction():
        before = rows_read(old)
        found = ask(old)
        scanned, fetched = (now - then for now, then in zip(rows_read(old), before, strict=True))

    assert found == answer
    assert scanned == 0
    assert fetched < 100


def test_task_of_its_own_prunes_again_and_again(old: Lab):
    runtime = old.trickle._runtime
    settings = runtime.settings
    runtime.settings = replace(settings, history_retention_days=2, history_prune_interval_seconds=1)
    count = "SELECT count(*) FROM pgtrickle.pgt_refresh_history"
    aged = (
        "UPDATE pgtrickle.pgt_refresh_history SET start_time = now() - interval '3 days'"
        " WHERE refresh_id = (SELECT max(refresh_id) FROM pgtrickle.pgt_refresh_history)"
    )
    try:
        with old.trickle.daemon.pruning_history():
            await_(lambda: old.value(count) < 100)
            before = old.value(count)
            old.run(aged)
            await_(lambda: old.value(count) < before)
    finally:
        runtime.settings = settings
