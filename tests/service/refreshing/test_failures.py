"""What errors lead to: by their kind, not by their text."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from pgtrickle.catalog.refreshes.history import (
    RefreshRecord,
    RefreshStatus,
    insert_refresh,
    list_refresh_statistics,
)
from pgtrickle.errors import (
    DataError,
    PrivilegeError,
    SourceNotFoundError,
    StatusForbidsError,
    TrickleError,
)
from pgtrickle.model.remedies import REMEDIES
from pgtrickle.model.stream_table import Action, InitiatedBy
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.scheduler.loop import Loop
from pgtrickle.service.refreshing.failures import counts
from tests.labs.hearing import PATIENCE
from tests.labs.lab import Lab
from tests.scheduler.shop import Watched


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
            lab.trickle.daemon.refresh_unit(["ratio"])
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
        let_errors_last(ratio)
        [error] = fail(ratio)
        [alert] = list(listener.notifies(timeout=PATIENCE, stop_after=1))

    assert standing(ratio) == ("SUSPENDED", 3)
    assert json.loads(alert.payload) == {
        "event": "auto_suspended",
        "name": "public.ratio",
        "error_code": "ST407",
        "consecutive_errors": 3,
    }
    assert error.suspended == "public.ratio"
    with pytest.raises(StatusForbidsError):
        ratio.trickle.daemon.refresh_unit(["ratio"])


def let_errors_last(lab: Lab, how_long: str = "301 seconds") -> None:
    lab.run(
        "UPDATE pgtrickle.pgt_stream_tables"
        f" SET errors_since = clock_timestamp() - interval '{how_long}'"
    )


def suspend(lab: Lab) -> None:
    """Let errors suspend a stream table, which they do when they last."""
    fail(lab, 2)
    let_errors_last(lab)
    fail(lab)
    assert standing(lab) == ("SUSPENDED", 3)


def test_many_errors_in_a_short_time_suspend_nothing(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")

    fail(ratio, 5)
    assert standing(ratio) == ("ACTIVE", 5)
    let_errors_last(ratio, "295 seconds")
    fail(ratio)
    assert standing(ratio) == ("ACTIVE", 6)
    let_errors_last(ratio)
    fail(ratio)
    assert standing(ratio) == ("SUSPENDED", 7)


def test_time_counts_from_the_first_error_since_a_success(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")
    fail(ratio, 2)
    let_errors_last(ratio, "1 day")
    ratio.run("DELETE FROM t WHERE id = 2")
    ratio.trickle.refresh_stream_table("ratio", full=True)
    ratio.run("INSERT INTO t VALUES (3, 0)")

    fail(ratio, 4)

    assert standing(ratio) == ("ACTIVE", 4)


def test_what_works_again_is_resumed_with_an_alert(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")
    suspend(ratio)
    assert ratio.trickle.get_stream_table("ratio").suspended_by == "ST407"
    with psycopg.connect(ratio.trickle.dsn, autocommit=True) as listener:
        listener.execute("LISTEN pg_trickle_alert")
        with pytest.raises(DataError):
            ratio.trickle.daemon.try_suspended("ratio")
        assert standing(ratio) == ("SUSPENDED", 4)
        ratio.run("DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 5)")
        [report] = ratio.trickle.daemon.try_suspended("ratio")
        [alert] = list(listener.notifies(timeout=PATIENCE, stop_after=1))

    assert report.rows_inserted == 1
    assert json.loads(alert.payload) == {"event": "resumed", "name": "public.ratio"}
    assert standing(ratio) == ("ACTIVE", 0)
    assert ratio.trickle.get_stream_table("ratio").suspended_by is None
    ratio.check("ratio")


def test_what_a_person_suspends_is_not_tried(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")
    suspend(ratio)
    ratio.trickle.alter_stream_table("ratio", status="SUSPENDED")
    ratio.run("DELETE FROM t WHERE id = 2")

    assert ratio.trickle.daemon.try_suspended("ratio") == []
    assert ratio.trickle.get_stream_table("ratio").status.value == "SUSPENDED"


def test_what_a_person_suspends_during_a_trial_stays_suspended(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")
    suspend(ratio)
    ratio.run("DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 5)")
    ratio.before_next_stage(lambda: ratio.trickle.alter_stream_table("ratio", status="SUSPENDED"))

    ratio.trickle.daemon.try_suspended("ratio")

    assert ratio.trickle.get_stream_table("ratio").status.value == "SUSPENDED"


def test_source_that_is_back_brings_its_reader_back(lab: Lab):
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    lab.create("ratio", "SELECT sum(v) AS s FROM t")
    lab.run("ALTER TABLE t RENAME TO u", "DROP TABLE u CASCADE")
    suspend(lab)
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 7)")
    lab.run(
        "UPDATE pgtrickle.pgt_stream_tables SET last_error_at = last_error_at - interval '1 hour'"
    )
    watched = Watched()

    Loop(lab.trickle.daemon, watched).run_once(threading.Event())

    assert watched.resumed_names == ["public.ratio"]
    assert standing(lab) == ("ACTIVE", 0)
    lab.check("ratio")


def test_missing_right_never_suspends():
    """Whoever must grant it is told, and it goes on by itself when he has."""
    assert not counts(PrivilegeError("may not"))
    assert counts(SourceNotFoundError("is gone"))


def test_advice_is_what_helps(lab: Lab):
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    lab.create("ratio", "SELECT v FROM t")
    lab.run("ALTER TABLE t ALTER v TYPE text")
    suspend(lab)

    [latest, before, *_] = lab.trickle.insight.diagnose_errors("ratio")

    assert (latest.error_code, latest.error_class) == ("ST302", "reinitialize")
    assert "pgtrickle drop public.ratio" in before.remedy
    assert latest.remedy.startswith(before.remedy)
    assert "pgtrickle alter public.ratio --status ACTIVE" in latest.remedy


def test_advice_of_an_earlier_version_is_that_of_the_error(ratio: Lab):
    ratio.run("INSERT INTO t VALUES (2, 0)")
    fail(ratio)
    ratio.run("UPDATE pgtrickle.pgt_refresh_history SET error_hint = NULL")

    [found] = ratio.trickle.insight.diagnose_errors("ratio")

    assert found.remedy == REMEDIES["ST407"].replace("NAME", "public.ratio")


def test_every_error_has_an_advice():
    assert REMEDIES.keys() == TrickleError.registry.keys()
    assert all(remedy.endswith(".") for remedy in REMEDIES.values())


def test_trial_of_one_below_a_diamond_takes_the_others_along(ratio: Lab):
    ratio.create("beside", "SELECT count(*) AS n FROM t")
    ratio.create("joint", "SELECT n, s FROM beside CROSS JOIN ratio")
    ratio.run("INSERT INTO t VALUES (2, 0)")
    suspend(ratio)
    ratio.run("DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 5)")

    [report] = ratio.trickle.daemon.try_suspended("ratio")

    assert report.stream_table == "public.ratio"
    assert standing(ratio) == ("ACTIVE", 0)
    ratio.check("ratio")


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
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid()"
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

    Loop(ratio.trickle.daemon, watched).run_once(threading.Event())

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
        record = RefreshRecord(InitiatedBy.SCHEDULER, RefreshStatus.COMPLETED, Action.NO_DATA)
        refresh = insert_refresh(ratio.connection, number, record)
        moment = f"now() - make_interval(days => {age})"
        ratio.run(
            f"UPDATE pgtrickle.pgt_refresh_history SET start_time = {moment}, end_time = {moment}"
            f" WHERE refresh_id = {refresh}"
        )
    before = ratio.value("SELECT count(*) FROM pgtrickle.pgt_refresh_history")

    assert ratio.trickle.daemon.prune_history() == 11
    assert ratio.value("SELECT count(*) FROM pgtrickle.pgt_refresh_history") == before - 11
    assert ratio.trickle.daemon.prune_history() == 0


def test_history_without_retention_is_kept(ratio: Lab):
    runtime = ratio.trickle._runtime
    runtime.settings, settings = (
        replace(runtime.settings, history_retention_days=0),
        (runtime.settings),
    )
    ratio.run("UPDATE pgtrickle.pgt_refresh_history SET start_time = '2001-01-01'")
    try:
        assert ratio.trickle.daemon.prune_history() == 0
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
