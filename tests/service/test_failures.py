"""What errors lead to: by their kind, not by their text."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from pgtrickle.catalog.refresh_history import (
    RefreshStatus,
    insert_refresh,
    list_refresh_statistics,
)
from pgtrickle.errors import DataError, StatusForbidsError, TrickleError
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.stream_table import Action, InitiatedBy
from pgtrickle.scheduler.loop import Loop
from tests.scheduler.shop import Watched
from tests.service.hearing import PATIENCE
from tests.service.lab import Lab


@pytest.fixture
def ratio(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    lab.create("ratio", "SELECT sum(10 / v) AS s FROM t")
    return lab


def fail(lab: Lab, times: int = 1) -> list[TrickleError]:
    """Let the scheduler's way of refreshing fail a few times."""
    errors = []
    for _ in range(times):
        with pytest.raises(TrickleError) as raised:
            lab.trickle.refresh_unit(["ratio"])
        errors.append(raised.value)
    return errors


def standing(lab: Lab) -> tuple[str, int]:
    table = lab.trickle.get_stream_table("ratio")
    return table.status.value, table.consecutive_errors


def test_third_error_in_a_row_suspends_with_an_alert(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")
    with psycopg.connect(ratio.trickle.dsn, autocommit=True) as listener:
        listener.execute("LISTEN pg_trickle_alert")
        fail(ratio, 2)
        assert standing(ratio) == ("ACTIVE", 2)
        fail(ratio)
        [alert] = list(listener.notifies(timeout=PATIENCE, stop_after=1))

    assert standing(ratio) == ("SUSPENDED", 3)
    assert json.loads(alert.payload) == {
        "event": "auto_suspended",
        "name": "public.ratio",
        "error_code": "ST407",
        "consecutive_errors": 3,
    }
    with pytest.raises(StatusForbidsError):
        ratio.trickle.refresh_unit(["ratio"])


def test_success_starts_the_count_anew(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")
    fail(ratio, 2)
    ratio.run("DELETE FROM t WHERE id = 2")
    ratio.trickle.refresh_stream_table("ratio", full=True)

    assert standing(ratio) == ("ACTIVE", 0)


def test_errors_of_refreshes_by_hand_suspend_nothing(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")
    for _ in range(4):
        with pytest.raises(DataError):
            ratio.trickle.refresh_stream_table("ratio")

    assert standing(ratio) == ("ACTIVE", 4)


def test_what_may_heal_by_itself_never_suspends(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 2)")
    with psycopg.connect(ratio.trickle.dsn) as rival:
        rival.execute("LOCK TABLE ratio IN ACCESS EXCLUSIVE MODE")
        ratio.run(
            f"ALTER DATABASE {ratio.connection.info.dbname} SET lock_timeout = '100ms'",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            f" AND datname = current_database() AND pid <> {rival.info.backend_pid}",
        )
        codes = {error.code for error in fail(ratio, 4)}
    ratio.run(f"ALTER DATABASE {ratio.connection.info.dbname} RESET lock_timeout")
    ratio.reconnect()

    assert codes <= {"ST401", "ST408"}
    assert standing(ratio) == ("ACTIVE", 0)


def test_statement_on_what_is_gone_makes_the_next_refresh_start_anew(ratio: Lab):
    state = ratio.value(
        "SELECT oid::regclass::text FROM pg_class"
        " WHERE relnamespace = 'pgtrickle_state'::regnamespace AND relkind = 'r' LIMIT 1"
    )
    ratio.run("INSERT INTO t VALUES (2, 2)", f"DROP TABLE {state}")

    [error] = fail(ratio)

    assert error.sqlstate == "42P01"
    assert ratio.value("SELECT needs_reinit FROM pgtrickle.pgt_stream_tables")
    ratio.refresh("ratio", "REINITIALIZE")
    ratio.window("DELETE FROM t WHERE id = 1")


def test_failed_group_counts_on_the_member_that_failed(ratio: Lab):
    ratio.create("beside", "SELECT count(*) AS n FROM t")
    ratio.create("joint", "SELECT n, s FROM beside CROSS JOIN ratio")
    ratio.run("INSERT INTO t VALUES (2, 0)")
    watched = Watched()
    ratio.run("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval")

    Loop(ratio.trickle, watched).run_once(threading.Event())

    [(name, code, _)] = watched.failures
    assert (set(str(name).split(", ")), code) == (
        {"public.beside", "public.ratio", "public.joint"},
        "ST407",
    )
    assert standing(ratio) == ("ACTIVE", 1)
    assert ratio.trickle.get_stream_table("beside").consecutive_errors == 0


def test_history_is_pruned_by_age(ratio: Lab):
    number = ratio.trickle.get_stream_table("ratio").id
    for age in range(81, 101):
        refresh = insert_refresh(
            ratio.connection,
            number,
            initiated_by=InitiatedBy.SCHEDULER,
            status=RefreshStatus.COMPLETED,
            action=Action.NO_DATA,
        )
        moment = f"now() - make_interval(days => {age})"
        ratio.run(
            f"UPDATE pgtrickle.pgt_refresh_history SET start_time = {moment}, end_time = {moment}"
            f" WHERE refresh_id = {refresh}"
        )
    before = ratio.value("SELECT count(*) FROM pgtrickle.pgt_refresh_history")

    assert ratio.trickle.prune_history() == 11
    assert ratio.value("SELECT count(*) FROM pgtrickle.pgt_refresh_history") == before - 11
    assert ratio.trickle.prune_history() == 0


def test_history_without_retention_is_kept(ratio: Lab):
    runtime = ratio.trickle._runtime
    runtime.settings, settings = (
        replace(runtime.settings, history_retention_days=0),
        (runtime.settings),
    )
    ratio.run("UPDATE pgtrickle.pgt_refresh_history SET start_time = '2001-01-01'")
    try:
        assert ratio.trickle.prune_history() == 0
    finally:
        runtime.settings = settings


def test_statistics_of_the_last_day(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")
    fail(ratio)

    [found] = list_refresh_statistics(ratio.connection, timedelta(days=1))

    assert (found.stream_table, found.refreshes, found.failures, found.error_rate) == (
        QualifiedName("public", "ratio"),
        2,
        1,
        0.5,
    )
    assert found.p50_ms is not None
    assert found.p50_ms == found.p99_ms
    assert found.freshness is not None
