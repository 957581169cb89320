"""Switches, pauses and repairs: whatever stops capture, no change is lost without a word."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.errors import CapturePausedError, SourceNotFoundError
from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n FROM t GROUP BY k"
BUFFERED = "SELECT count(*) FROM pgtrickle_changes.changes_{}"


@pytest.fixture
def counted(lab: Lab) -> Lab:
    lab.run(*T)
    lab.create("counts", COUNTS)
    return lab


def buffered(lab: Lab) -> int:
    relid = lab.value("SELECT 't'::regclass::oid::int")
    found: int = lab.value(BUFFERED.format(relid))
    return found


WRITES = [
    "INSERT INTO t VALUES (3, 3)",
    "UPDATE t SET k = 9 WHERE id = 1",
    "DELETE FROM t WHERE id = 2",
    "TRUNCATE t",
]


@pytest.mark.parametrize("write", WRITES)
def test_switched_off_capture_writes_no_rows_and_leads_to_reinitialize(counted: Lab, write: str):
    counted.run("SET pg_trickle.enabled = off", write)

    assert buffered(counted) == 0
    report = counted.refresh("counts", "REINITIALIZE")
    assert report.reason == "changes of public.t are missing: pg_trickle.enabled was off"
    counted.run("RESET pg_trickle.enabled")
    counted.window("INSERT INTO t VALUES (4, 4)")
    counted.window(action="NO_DATA")


def test_gap_is_noted_once_a_transaction_and_not_for_statements_without_rows(counted: Lab):
    counted.run("SET pg_trickle.enabled = off", "UPDATE t SET k = 1 WHERE false")
    counted.window(action="NO_DATA")
    with counted.connection.transaction():
        counted.run(*WRITES[:3])

    assert counted.value("SELECT count(*) FROM pgtrickle.pgt_capture_gaps") == 1


def test_gap_of_a_transaction_that_is_rolled_back_never_was(counted: Lab):
    counted.run("SET pg_trickle.enabled = off")
    with counted.connection.transaction(force_rollback=True):
        counted.run(WRITES[0])

    counted.window(action="NO_DATA")
    with counted.connection.transaction():
        with counted.connection.transaction(force_rollback=True):
            counted.run(WRITES[0])
        counted.run(WRITES[1])
    counted.refresh("counts", "REINITIALIZE")


def test_gap_of_a_long_transaction_falls_into_the_window_in_which_it_commits(counted: Lab):
    with psycopg.connect(counted.trickle.dsn) as writer:
        writer.execute("SET pg_trickle.enabled = off")
        writer.execute("INSERT INTO t VALUES (3, 3)")
        counted.window("INSERT INTO t VALUES (4, 4)")
        counted.window(action="NO_DATA")
        writer.commit()

    counted.refresh("counts", "REINITIALIZE")
    counted.window(action="NO_DATA")


def test_every_consumer_learns_of_a_gap(counted: Lab):
    counted.create("copy", "SELECT id, k FROM t")
    counted.run("SET pg_trickle.enabled = off", WRITES[0], "RESET pg_trickle.enabled")
    counted.refresh("counts", "REINITIALIZE")

    counted.run("INSERT INTO t VALUES (5, 5)")
    counted.refresh("counts")
    counted.refresh("copy", "REINITIALIZE")
    assert counted.value("SELECT count(*) FROM pgtrickle.pgt_capture_gaps") == 0


def test_gap_is_not_passed_over_as_idle(counted: Lab):
    tables = counted.trickle.list_stream_tables()
    assert counted.trickle.daemon.find_idle(tables) == {tables[0].id}
    counted.run("SET pg_trickle.enabled = off", WRITES[0], "RESET pg_trickle.enabled")

    assert counted.trickle.daemon.find_idle(tables) == frozenset()


def test_scheduler_rests_while_the_database_has_pgtrickle_off(counted: Lab):
    name = counted.connection.info.dbname
    tables = counted.trickle.list_stream_tables()
    counted.run(WRITES[0])
    try:
        counted.run(f'ALTER DATABASE "{name}" SET pg_trickle.enabled = off')
        assert counted.trickle.daemon.find_idle(tables) == {tables[0].id}
        [now] = counted.trickle.list_stream_tables()
        assert now.data_timestamp == tables[0].data_timestamp
    finally:
        counted.run(f'ALTER DATABASE "{name}" RESET pg_trickle.enabled')
    assert counted.trickle.daemon.find_idle(tables) == frozenset()


def test_pause_holds_for_open_sessions_and_ends_in_reinitialize(counted: Lab):
    with psycopg.connect(counted.trickle.dsn) as writer:
        writer.execute("INSERT INTO t VALUES (3, 3)")  # captured, and open
        assert counted.trickle.capture.pause_cdc() == ["public.t"]
        writer.execute("INSERT INTO t VALUES (4, 4)")
        writer.commit()
    counted.run(WRITES[1])

    assert buffered(counted) == 1
    assert counted.trickle.capture.pause_cdc() == []
    report = counted.refresh("counts", "REINITIALIZE")
    assert report.reason == "changes of public.t are missing: its capture is paused"
    counted.window(WRITES[2], action="REINITIALIZE")
    assert counted.trickle.capture.resume_cdc("t") == ["public.t"]
    assert counted.trickle.capture.resume_cdc() == []
    counted.refresh("counts", "REINITIALIZE")
    counted.window("INSERT INTO t VALUES (9, 9)")
    counted.window(action="NO_DATA")


def test_resuming_waits_for_writers_that_were_not_captured(counted: Lab):
    counted.trickle.capture.pause_cdc()
    with psycopg.connect(counted.trickle.dsn) as writer:
        writer.execute("INSERT INTO t VALUES (3, 3)")
        with psycopg.connect(counted.trickle.dsn) as impatient:
            impatient.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                impatient.execute("LOCK TABLE t IN SHARE ROW EXCLUSIVE MODE")
        writer.commit()
    counted.trickle.capture.resume_cdc()

    counted.refresh("counts", "REINITIALIZE")
    counted.window("INSERT INTO t VALUES (4, 4)")


def test_pause_survives_what_would_renew_the_capture(counted: Lab):
    counted.trickle.capture.pause_cdc()
    counted.run("ALTER TABLE t ADD COLUMN note text", "INSERT INTO t VALUES (3, 3)")
    counted.refresh("counts", "REINITIALIZE")
    counted.run("INSERT INTO t VALUES (4, 4)")

    assert buffered(counted) == 0
    with pytest.raises(CapturePausedError, match="is paused"):
        counted.trickle.create_stream_table("copy", "SELECT id FROM t")
    assert [one.what for one in counted.trickle.capture.rebuild_cdc_triggers()] == ["is paused"]
    assert buffered(counted) == 0
    counted.trickle.capture.resume_cdc()
    counted.refresh("counts", "REINITIALIZE")


def test_paused_stream_tables_are_not_refreshed_on_a_schedule(counted: Lab):
    counted.trickle.capture.pause_cdc()
    counted.run(WRITES[0])
    tables = counted.trickle.list_stream_tables()

    assert counted.trickle.daemon.find_idle(tables) == {tables[0].id}
    [now] = counted.trickle.list_stream_tables()
    assert now.data_timestamp == tables[0].data_timestamp
    counted.trickle.capture.resume_cdc()
    assert counted.trickle.daemon.find_idle(tables) == frozenset()


def test_unknown_source_cannot_be_paused(counted: Lab):
    with pytest.raises(SourceNotFoundError, match="no stream table reads"):
        counted.trickle.capture.pause_cdc("nothing")


def test_partitioned_source_is_paused_whole(lab: Lab):
    lab.run(
        "CREATE TABLE p (id int, k int) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    )
    lab.create("copy", "SELECT id, k FROM p")
    lab.trickle.capture.pause_cdc()
    lab.run("INSERT INTO p VALUES (1, 1)", "INSERT INTO p1 VALUES (2, 2)")

    lab.trickle.capture.resume_cdc()
    lab.refresh("copy", "REINITIALIZE")
    lab.window("INSERT INTO p VALUES (3, 1)", "INSERT INTO p1 VALUES (4, 2)")


def alerts(lab: Lab) -> list[str | None]:
    return [one.alert for one in lab.trickle.capture.check_cdc_health()]


DAMAGES = {
    "triggers_missing": "DROP TRIGGER pgtrickle_capture_insert ON t",
    "triggers_disabled": "ALTER TABLE t DISABLE TRIGGER ALL",
    "buffer_missing": "DO $$ BEGIN EXECUTE format("
    "'DROP TABLE pgtrickle_changes.changes_%s CASCADE', 't'::regclass::oid); END $$",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_and_mended(counted: Lab, damage: str):
    assert alerts(counted) == [None]
    counted.run(DAMAGES[damage])
    assert damage in alerts(counted)

    mended = counted.trickle.capture.rebuild_cdc_triggers()

    assert [one.what for one in mended] == [f"triggers created again: {damage.replace('_', ' ')}"]
    assert counted.value("SELECT alert FROM pgtrickle.check_cdc_health()") == "gap"
    counted.refresh("counts", "REINITIALIZE")
    assert alerts(counted) == [None]
    counted.window("INSERT INTO t VALUES (7, 7)", "UPDATE t SET k = 8 WHERE id = 7")


def test_writes_past_disabled_triggers_come_in_with_the_repair(counted: Lab):
    counted.run("ALTER TABLE t DISABLE TRIGGER ALL", *WRITES[:2])

    counted.trickle.capture.rebuild_cdc_triggers()
    counted.refresh("counts", "REINITIALIZE")


def test_sound_captures_are_rebuilt_without_consequences(counted: Lab):
    counted.run(WRITES[0])

    assert [one.what for one in counted.trickle.capture.rebuild_cdc_triggers()] == [
        "triggers created again"
    ]

    counted.refresh("counts")


def test_repair_makes_a_stream_table_whole_and_may_be_repeated(counted: Lab):
    counted.run(
        "ALTER TABLE t DISABLE TRIGGER ALL",
        "INSERT INTO t VALUES (3, 3)",
        "DROP TRIGGER pgtrickle_guard ON counts",
        "DELETE FROM counts",
    )
    counted.trickle.alter_stream_table("counts", status="SUSPENDED")

    mended = [f"{one.source}: {one.what}" for one in counted.trickle.repair_stream_table("counts")]

    assert mended == [
        "public.t: triggers created again: triggers disabled",
        "public.counts: guard created again",
        "public.counts: errors forgotten, active again",
        "public.counts: is reloaded by its next refresh",
    ]
    counted.trickle.repair_stream_table("counts")
    counted.refresh("counts", "REINITIALIZE")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        counted.run("DELETE FROM counts")
    counted.window("INSERT INTO t VALUES (4, 4)")


def test_health_says_paused_and_missing(counted: Lab):
    counted.trickle.capture.pause_cdc()
    assert alerts(counted) == ["gap", "paused"]
    with counted.unwatched():
        counted.run("DROP TABLE t")
    assert "source_missing" in alerts(counted)
