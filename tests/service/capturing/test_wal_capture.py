"""Capture from the write-ahead log: every committed change once, whatever happens to the slot.

scenarios.md: P57; windows as in test_transactions.py, with the log in place of triggers.
"""

from __future__ import annotations

import json
import random
import threading
from contextlib import suppress
from dataclasses import dataclass, replace

import psycopg
import pytest

from pgtrickle.capture.wal.slot import get_log_end
from pgtrickle.catalog.capture.wal_capture import lock_wal
from pgtrickle.errors import SlotLostError, TrickleError, WalUnavailableError
from pgtrickle.service.capturing.drain_wal import drain_step, drain_wal
from pgtrickle.service.capturing.mode import drain_or_hand_back, tend_capture
from tests.labs.hearing import PATIENCE
from tests.labs.lab import Lab
from tests.labs.wal_lab import COPY, COUNTS, T, create, modes, slot_name, slots, triggers


def test_changes_reach_the_window_without_triggers(counted: Lab):
    assert triggers(counted) == 0

    counted.window("INSERT INTO t VALUES (3, 2, 'c'), (4, 2, NULL)")
    counted.window("UPDATE t SET k = 3 WHERE id <= 2", "UPDATE t SET note = 'd' WHERE id = 4")
    counted.window("DELETE FROM t WHERE id = 3")
    counted.window("UPDATE t SET id = id + 100")
    counted.window(action="NO_DATA")


def test_values_of_every_kind_come_through_the_log_unharmed(wal: Lab):
    wal.run(
        "CREATE TYPE mood AS ENUM ('glad', 'so \"so\"')",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN code AS varchar(5) CHECK (value <> '')",
        "CREATE TABLE wide (id int, f float8, n numeric, b bytea, ts timestamptz, d date,"
        " i interval, j jsonb, x text, a text[], m mood, p pair, c code, u uuid, bits bit(3),"
        " ch char(4), money money, r int4range)",
    )
    query = "SELECT * FROM wide"
    create(wal, "copy", query)
    wal.run(
        "INSERT INTO wide VALUES"
        " (1, 0.1::float8 + 0.2, 1.10, '\\x00ff0a', '2026-01-01 12:00:00.123456+02', 'infinity',"
        "  '1 mon -2 days 03:04:05.6', '{\"a\": [1, null]}', E'tab\\tline\\nback\\\\slash\\r\\x01',"
        "  ARRAY['x,y', NULL, '\"'], 'so \"so\"', ROW(1, 'q,'), 'abc', gen_random_uuid(), B'101',"
        "  'ab', 12.5, '[1,5)'),"
        " (2, 'NaN', 'NaN', '', '-infinity', '0044-03-15 BC', '-00:00:01', 'null', '', '{}',"
        "  'glad', NULL, NULL, NULL, NULL, '', -1, 'empty'),"
        " (3, '-infinity', 1e-20, NULL, NULL, NULL, NULL, NULL, '\\N', NULL, NULL, ROW(NULL, NULL),"
        "  NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    wal.window()
    wal.window("UPDATE wide SET id = id + 10, f = -f")
    wal.window("DELETE FROM wide WHERE id <> 12")


@pytest.mark.parametrize(
    "setting",
    [
        "DateStyle = 'ISO, DMY'",
        "DateStyle = 'SQL, DMY'",
        "DateStyle = 'German'",
        "IntervalStyle = 'sql_standard'",
        "extra_float_digits = -10",
    ],
)
def test_preferences_of_the_database_do_not_matter(wal: Lab, setting: str):
    database = wal.value("SELECT current_database()")
    wal.run(
        "CREATE TABLE moments (d date, i interval, f float8)",
        "CREATE TABLE parts AS SELECT (i / 21.0)::float8 AS f, i FROM generate_series(0, 60) i",
        f'ALTER DATABASE "{database}" SET {setting}',
    )
    try:
        wal.reconnect()
        create(wal, "copy", "SELECT * FROM moments")
        create(wal, "joined", "SELECT m.d, parts.i FROM moments AS m JOIN parts ON parts.f = m.f")
        wal.window(
            "INSERT INTO moments VALUES"
            " ('2026-02-01', '1 year -2 days 3 seconds', (3 / 21.0)::float8)"
        )
        wal.window("UPDATE moments SET d = d + 1, f = (5 / 21.0)::float8")
    finally:
        wal.run(f'ALTER DATABASE "{database}" RESET ALL')
        wal.reconnect()


def test_toasted_value_that_an_update_leaves_alone_stays(counted: Lab):
    counted.run("ALTER TABLE t ALTER note SET STORAGE EXTERNAL")
    counted.window("INSERT INTO t VALUES (9, 9, repeat('long ', 20000))")

    counted.window("UPDATE t SET k = 10 WHERE id = 9")
    counted.window("DELETE FROM t WHERE id = 9")


def test_update_of_a_column_that_nobody_reads_is_no_change(wal: Lab):
    wal.run(*T)
    create(wal, "keys", "SELECT id, k FROM t")

    wal.window("UPDATE t SET note = 'other'", action="NO_DATA")


def test_duplicates_of_a_table_without_a_key_are_counted(wal: Lab):
    wal.run("CREATE TABLE bag (a int, b text)")
    create(wal, "copy", "SELECT a, b FROM bag")
    wal.window("INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, NULL)")
    wal.window(
        "DELETE FROM bag WHERE ctid = (SELECT ctid FROM bag WHERE a = 1 LIMIT 1)",
        "UPDATE bag SET a = 3 WHERE ctid = (SELECT ctid FROM bag WHERE a = 1 LIMIT 1)",
    )


def test_query_that_reads_no_column_counts_rows(wal: Lab):
    wal.run(*T)
    create(wal, "total", "SELECT count(*) AS n FROM t")
    wal.window("INSERT INTO t VALUES (3, 1, 'c')")
    wal.window("DELETE FROM t WHERE id < 3")


def test_truncate_is_full_and_then_differential_again(counted: Lab):
    counted.window("TRUNCATE t", action="FULL")
    counted.window("INSERT INTO t VALUES (5, 5, 'e')")
    with counted.connection.transaction():
        counted.run("INSERT INTO t VALUES (6, 5, 'f')", "TRUNCATE t", "INSERT INTO t VALUES (7, 5)")
    counted.window(action="FULL")
    counted.window("DELETE FROM t")


def test_foreign_key_cascade_merge_and_copy_are_captured(wal: Lab):
    wal.run(
        *T, "CREATE TABLE lines (t_id int REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE, n int)"
    )
    query = "SELECT t.k, count(*) AS n FROM t JOIN lines ON lines.t_id = t.id GROUP BY t.k"
    create(wal, "joined", query)
    wal.window("INSERT INTO lines SELECT 1 + i % 2, i FROM generate_series(1, 10) AS i")
    wal.window("UPDATE t SET id = 20 WHERE id = 2")
    wal.window("DELETE FROM t WHERE id = 1")
    wal.run(
        "MERGE INTO t USING (VALUES (20), (21)) AS v (id) ON t.id = v.id"
        " WHEN MATCHED THEN UPDATE SET k = 7 WHEN NOT MATCHED THEN INSERT VALUES (v.id, 8)"
    )
    with wal.connection.cursor().copy("COPY lines FROM STDIN") as copy:
        copy.write_row((21, 1))
    wal.window()


def test_long_transaction_appears_when_it_commits(counted: Lab, writer: psycopg.Connection):
    writer.execute("INSERT INTO t VALUES (10, 2)")
    counted.window("INSERT INTO t VALUES (3, 1)")
    counted.window("DELETE FROM t WHERE id = 1")
    counted.window(action="NO_DATA")

    writer.commit()

    counted.window()
    counted.window(action="NO_DATA")


def test_savepoints_rollbacks_and_prepared_transactions(counted: Lab, writer: psycopg.Connection):
    with writer.transaction():
        writer.execute("INSERT INTO t VALUES (10, 2)")
        with writer.transaction(force_rollback=True):
            writer.execute("INSERT INTO t VALUES (11, 2)")
        counted.window("INSERT INTO t VALUES (3, 1)")
        with writer.transaction():
            writer.execute("INSERT INTO t VALUES (12, 2)")
    counted.window()
    with writer.transaction(force_rollback=True):
        writer.execute("DELETE FROM t")
    counted.window(action="NO_DATA")
    writer.execute("INSERT INTO t VALUES (20, 2)")
    writer.execute("PREPARE TRANSACTION 'pgtrickle_wal'")
    writer.commit()
    counted.window("INSERT INTO t VALUES (21, 1)")
    counted.window("COMMIT PREPARED 'pgtrickle_wal'")


def test_commit_that_does_not_wait_for_the_disk_is_in_the_window(counted: Lab):
    counted.run("SET synchronous_commit = off")
    for number in range(30, 38):
        counted.window(f"INSERT INTO t VALUES ({number}, 1, 'x')")
    counted.run("RESET synchronous_commit")


def test_change_between_the_snapshot_and_the_commit_is_in_the_next_window(counted: Lab):
    counted.run("INSERT INTO t VALUES (3, 1)")
    counted.before_next_stage(lambda: counted.run("INSERT INTO t VALUES (4, 1)"))
    first = counted.trickle.refresh_stream_table("copy")

    assert (first.action.value, first.rows_inserted) == ("DIFFERENTIAL", 1)
    counted.window()


def test_change_that_others_drained_after_the_snapshot_is_in_the_next_window(counted: Lab):
    def write_and_drain() -> None:
        counted.run("INSERT INTO t VALUES (4, 1)")
        drain_wal(counted.trickle._runtime)

    counted.run("INSERT INTO t VALUES (3, 1)")
    counted.before_next_stage(write_and_drain)
    first = counted.trickle.refresh_stream_table("copy")

    assert first.rows_inserted == 1
    counted.window()


def test_joined_table_by_trigger_and_table_by_log_are_one_moment(wal: Lab):
    wal.run(*T, "CREATE TABLE names (k numeric, name text)", "INSERT INTO names VALUES (1, 'one')")
    create(wal, "by_trigger", "SELECT k, name FROM names", cdc_mode="trigger")
    create(wal, "joined", "SELECT t.id, names.name FROM t JOIN names ON names.k = t.k", "auto")
    wal.trickle.alter_stream_table("joined", cdc_mode="wal")
    assert modes(wal) == {"t": "WAL", "names": "TRIGGER"}

    wal.window("INSERT INTO t VALUES (3, 2)", "INSERT INTO names VALUES (2, 'two')")
    wal.window("UPDATE names SET k = 3 - k")
    wal.run("UPDATE t SET k = 3 - k")
    wal.refresh("joined")


def test_key_of_a_type_that_is_not_written_out_bounds_the_other_table(wal: Lab):
    wal.run(
        "CREATE TABLE a (k uuid, v int)",
        "CREATE TABLE b (k uuid PRIMARY KEY, w numeric)",
        "INSERT INTO b SELECT gen_random_uuid(), i FROM generate_series(1, 50) AS i",
    )
    create(wal, "joined", "SELECT a.v, b.w FROM a JOIN b ON a.k = b.k")

    wal.window("INSERT INTO a SELECT k, 1 FROM b WHERE w <= 10")
    wal.window("DELETE FROM b WHERE w <= 3")
    wal.window("UPDATE b SET w = w + 100 WHERE w <= 6")


def test_crash_between_the_commit_and_the_move_of_the_slot_doubles_nothing(counted: Lab):
    runtime = counted.trickle._runtime
    counted.run("INSERT INTO t VALUES (3, 1)")
    with runtime.connection() as writer, runtime.connection() as reader, writer.transaction():
        lock_wal(writer)
        assert drain_step(writer, reader, get_log_end(reader), 1000).changes == 1
    assert counted.value(
        "SELECT confirmed_flush_lsn < position FROM pg_replication_slots"
        " JOIN pgtrickle.pgt_wal_slots USING (slot_name)"
    )

    counted.window()
    counted.window(action="NO_DATA")


def test_crash_before_the_commit_loses_nothing(counted: Lab):
    runtime = counted.trickle._runtime
    counted.run("INSERT INTO t VALUES (3, 1)")
    with (
        runtime.connection() as writer,
        runtime.connection() as reader,
        writer.transaction(force_rollback=True),
    ):
        lock_wal(writer)
        assert drain_step(writer, reader, get_log_end(reader), 1000).changes == 1

    counted.window()


def test_drain_in_small_steps_takes_everything_once(counted: Lab):
    runtime = counted.trickle._runtime
    settings = runtime.settings
    runtime.settings = replace(settings, wal_max_changes_per_poll=7)
    try:
        for number in range(100, 140):
            counted.run(f"INSERT INTO t SELECT {number} * 10 + i, i FROM generate_series(0, 4) i")
        counted.window()
        counted.window("UPDATE t SET k = k + 1")
    finally:
        runtime.settings = settings


def test_two_processes_drain_at_once(counted: Lab):
    counted.run("INSERT INTO t SELECT i, i % 5 FROM generate_series(100, 5000) AS i")
    threads = [
        threading.Thread(target=drain_wal, args=[counted.trickle._runtime]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted.window()


def test_idle_stream_tables_are_found_idle_only_when_the_log_says_so(counted: Lab):
    tables = counted.trickle.list_stream_tables()
    assert counted.trickle.daemon.find_idle(tables) == {table.id for table in tables}

    counted.run("INSERT INTO t VALUES (3, 1)")

    assert counted.trickle.daemon.find_idle(tables) == frozenset()


def test_new_consumer_widens_the_capture(counted: Lab):
    counted.run("ALTER TABLE t ADD extra int DEFAULT 5", "INSERT INTO t VALUES (3, 1, 'c', 6)")
    create(counted, "wider", "SELECT id, extra FROM t")
    assert (modes(counted), triggers(counted)) == ({"t": "WAL"}, 0)

    counted.window("INSERT INTO t VALUES (4, 1, 'd', 7)")
    counted.run("UPDATE t SET extra = NULL WHERE id < 3")
    counted.refresh("wider")


def test_unreferenced_column_comes_and_goes(wal: Lab):
    wal.run(*T)
    create(wal, "keys", "SELECT id, k FROM t")
    wal.run("INSERT INTO t VALUES (3, 1, 'c')", "ALTER TABLE t DROP note")
    wal.window("INSERT INTO t VALUES (4, 1)")
    wal.run("ALTER TABLE t ADD another text")
    wal.window("UPDATE t SET k = 2, another = 'x'")


def test_retyped_column_reinitializes(counted: Lab):
    counted.window("INSERT INTO t VALUES (3, 1, 'c')")
    counted.run("INSERT INTO t VALUES (4, 1, 'd')", "ALTER TABLE t ALTER k TYPE bigint USING k * 2")
    counted.run("INSERT INTO t VALUES (5, 5000000000, 'e')")
    with pytest.raises(TrickleError):
        counted.trickle.refresh_stream_table("copy")  # its own column is an integer

    counted.run("ALTER TABLE t ALTER note TYPE varchar(10)")
    assert modes(counted) == {"t": "WAL"}


def test_last_consumer_takes_slot_publication_and_identity_along(counted: Lab):
    assert counted.value("SELECT relreplident FROM pg_class WHERE oid = 't'::regclass") == "f"
    counted.trickle.drop_stream_table("counts")
    counted.queries.pop("counts")
    counted.window("INSERT INTO t VALUES (3, 1)")

    counted.trickle.drop_stream_table("copy")

    assert counted.leftovers() == []
    assert slots(counted) == 0
    assert counted.value("SELECT count(*) FROM pg_publication") == 0
    assert counted.value("SELECT relreplident FROM pg_class WHERE oid = 't'::regclass") == "d"


def published(lab: Lab) -> list[str]:
    return [name for (name,) in lab.rows("SELECT tablename FROM pg_publication_tables")]


def test_publication_follows_the_sources_as_they_come_and_go(wal: Lab):
    wal.run(*T, "CREATE TABLE u (id int)")
    create(wal, "copy", COPY)
    assert published(wal) == ["t"]
    create(wal, "pairs", "SELECT t.id FROM t JOIN u ON u.id = t.id")
    assert published(wal) == ["t", "u"]
    wal.trickle.alter_stream_table("pairs", cdc_mode="trigger")  # has its way with both sources
    assert published(wal) == []
    wal.trickle.alter_stream_table("pairs", cdc_mode="auto")
    assert modes(wal) == {"t": "WAL", "u": "TRIGGER"}  # whose identity was given back
    assert published(wal) == ["t"]
    wal.trickle.alter_stream_table("pairs", cdc_mode="wal")
    assert published(wal) == ["t", "u"]
    wal.window("INSERT INTO u VALUES (1)", "INSERT INTO t VALUES (3, 3, NULL)")
    wal.trickle.drop_stream_table("pairs")
    wal.queries.pop("pairs")
    assert published(wal) == ["t"]
    wal.run("ALTER TABLE t RENAME TO renamed", "ALTER TABLE renamed RENAME TO t")
    wal.window("DELETE FROM t WHERE id = 1")
    wal.trickle.drop_stream_table("copy")
    assert (published(wal), slots(wal)) == ([], 0)


def test_identity_by_an_index_is_given_back(wal: Lab):
    wal.run(
        *T,
        "CREATE UNIQUE INDEX by_id ON t (id)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX by_id",
    )
    create(wal, "copy", COPY)
    wal.trickle.alter_stream_table("copy", cdc_mode="trigger")

    assert wal.value("SELECT relreplident FROM pg_class WHERE oid = 't'::regclass") == "i"
    assert (modes(wal), slots(wal)) == ({"t": "TRIGGER"}, 0)


def test_auto_leaves_a_table_alone_that_is_not_prepared(wal: Lab):
    wal.run(*T, "CREATE TABLE ready (id int)", "ALTER TABLE ready REPLICA IDENTITY FULL")
    create(wal, "a", "SELECT id FROM t", "auto")
    create(wal, "b", "SELECT id FROM ready", "auto")

    assert modes(wal) == {"t": "TRIGGER", "ready": "WAL"}
    note = wal.value("SELECT cdc_note FROM pgtrickle.pgt_change_tracking WHERE source_name = 't'")
    assert note == "its replica identity is not FULL"


def test_wal_is_refused_where_it_cannot_be(wal: Lab):
    wal.run("CREATE TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) STORED)")

    with pytest.raises(WalUnavailableError):
        wal.trickle.create_stream_table("copy", "SELECT a, b FROM g", cdc_mode="wal")

    assert wal.leftovers() == []
    assert slots(wal) == 0


def test_stream_table_over_a_stream_table_follows(counted: Lab):
    create(counted, "top", "SELECT sum(n) AS n FROM counts")
    assert modes(counted) == {"t": "WAL", "counts": "TRIGGER"}

    counted.window("INSERT INTO t VALUES (3, 2)")


def test_slot_that_is_dropped_leads_to_triggers_and_a_rebuild(counted: Lab):
    counted.run("INSERT INTO t VALUES (3, 1)")
    counted.connection.execute("SELECT pg_drop_replication_slot(%s)", [slot_name(counted)])

    [copy, counts] = counted.window(action="REINITIALIZE")

    assert copy.reason.startswith("changes of public.t are missing: the logical slot")
    assert counts.reason == copy.reason
    assert (modes(counted), triggers(counted)) == ({"t": "TRIGGER"}, 4)
    counted.window("INSERT INTO t VALUES (4, 1)")


def test_slot_of_another_plugin_leads_to_triggers_and_a_rebuild(counted: Lab):
    name = slot_name(counted)
    counted.run("INSERT INTO t VALUES (3, 1)", f"SELECT pg_drop_replication_slot('{name}')")
    with psycopg.connect(counted.trickle.dsn, autocommit=True) as connection:
        try:
            connection.execute(
                "SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [name]
            )
        except psycopg.errors.UndefinedFile:
            pytest.skip("the server has no other plugin")

    counted.window(action="REINITIALIZE")
    assert modes(counted) == {"t": "TRIGGER"}


def test_slot_that_someone_else_reads_leads_to_a_rebuild(counted: Lab):
    counted.run("INSERT INTO t VALUES (3, 1)")
    counted.connection.execute(
        "SELECT count(*) FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
        " 'proto_version', '1', 'publication_names', 'pgtrickle_capture')",
        [slot_name(counted)],
    )

    counted.window(action="REINITIALIZE")


def test_slot_that_was_dropped_and_made_anew_leads_to_a_rebuild(counted: Lab):
    name = slot_name(counted)
    counted.run(
        "INSERT INTO t VALUES (3, 1)",
        f"SELECT pg_drop_replication_slot('{name}')",
        f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')",
    )

    counted.window(action="REINITIALIZE")


@pytest.mark.parametrize(
    "meddling",
    [
        ("ALTER PUBLICATION pgtrickle_capture DROP TABLE t",),
        (
            "ALTER PUBLICATION pgtrickle_capture DROP TABLE t",
            "INSERT INTO t VALUES (50, 1)",
            "ALTER PUBLICATION pgtrickle_capture ADD TABLE t",
        ),
        ("DROP PUBLICATION pgtrickle_capture", "INSERT INTO t VALUES (51, 1)"),
        ("ALTER PUBLICATION pgtrickle_capture SET (publish = 'insert')",),
        ("ALTER TABLE t REPLICA IDENTITY DEFAULT", "DELETE FROM t WHERE id = 2"),
        (
            "ALTER TABLE t REPLICA IDENTITY DEFAULT",
            "UPDATE t SET k = 5",
            "ALTER TABLE t REPLICA IDENTITY FULL",
        ),
    ],
    ids=["unpublished", "unpublished for a time", "no publication", "part", "delete", "update"],
)
def test_meddling_is_noticed_and_loses_nothing(counted: Lab, meddling: tuple[str, ...]):
    counted.run("INSERT INTO t VALUES (3, 1)", *meddling)

    counted.window("INSERT INTO t VALUES (60, 1)", action="REINITIALIZE")

    assert modes(counted) == {"t": "TRIGGER"}
    counted.window("INSERT INTO t VALUES (61, 1)")


def test_gap_in_one_source_leaves_the_others_alone(wal: Lab):
    wal.run(*T, "CREATE TABLE u (id int)")
    create(wal, "copy", COPY)
    create(wal, "other", "SELECT id FROM u")
    wal.run(
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO u VALUES (1)",
    )

    wal.refresh("other")
    wal.refresh("copy", "REINITIALIZE")

    assert modes(wal) == {"t": "TRIGGER", "u": "WAL"}
    wal.run("INSERT INTO t VALUES (9, 9)", "INSERT INTO u VALUES (2)")
    wal.refresh("other")
    wal.refresh("copy")


def test_renamed_label_of_an_enum_leads_to_a_rebuild(wal: Lab):
    wal.run("CREATE TYPE mood AS ENUM ('glad', 'sad')", "CREATE TABLE m (id int, mood mood)")
    create(wal, "copy", "SELECT id, mood FROM m")
    wal.run("INSERT INTO m VALUES (1, 'glad')", "ALTER TYPE mood RENAME VALUE 'glad' TO 'happy'")

    wal.refresh("copy", "REINITIALIZE")
    wal.window("INSERT INTO m VALUES (2, 'happy')")


def test_rebuild_is_not_forgotten_by_an_idle_pass(counted: Lab):
    counted.run("INSERT INTO t VALUES (3, 1)")
    counted.connection.execute("SELECT pg_drop_replication_slot(%s)", [slot_name(counted)])
    drain_or_hand_back(counted.trickle._runtime)

    assert counted.trickle.daemon.find_idle(counted.trickle.list_stream_tables()) == frozenset()
    counted.window(action="REINITIALIZE")


def test_dropped_source_does_not_stop_the_others(wal: Lab):
    wal.run(*T, "CREATE TABLE u (id int)")
    create(wal, "copy", COPY)
    create(wal, "other", "SELECT id FROM u")
    wal.run("DROP TABLE t CASCADE", "INSERT INTO u VALUES (1)")

    wal.refresh("other")
    with pytest.raises(TrickleError):
        wal.trickle.refresh_stream_table("copy")
    wal.run("INSERT INTO u VALUES (2)")
    wal.refresh("other")


def test_slot_lag_is_measured_and_announced(counted: Lab):
    runtime = counted.trickle._runtime
    settings = runtime.settings
    # The log is the server's: what other databases write counts too, so there is room above.
    warned = replace(settings, slot_lag_warning_threshold_mb=1)
    runtime.settings = replace(warned, slot_lag_critical_threshold_mb=1_000_000)
    try:
        with (
            psycopg.connect(counted.trickle.dsn, autocommit=True) as listener,
            psycopg.connect(counted.trickle.dsn) as old,
        ):
            listener.execute("LISTEN pg_trickle_alert")
            # The server keeps the log from where the oldest open transaction wrote first.
            old.execute("SELECT pg_logical_emit_message(true, 'test', 'keeps the log')")
            counted.run(
                "CREATE TABLE bulk AS SELECT repeat('x', 1000) FROM generate_series(1, 2000)"
            )
            health = counted.trickle.capture.slot_health()
            assert health is not None
            assert health.severity.value == "WARNING"
            assert announced(counted, listener) == "slot_lag_warning"
            counted.run("INSERT INTO bulk TABLE bulk")
            runtime.settings = replace(warned, slot_lag_critical_threshold_mb=2)
            health = counted.trickle.capture.slot_health()
            assert health is not None
            assert health.severity.value == "CRITICAL"
            assert not next(c for c in counted.trickle.doctor() if c.name == "logical slot").ok
            assert announced(counted, listener) == "slot_lag_critical"
    finally:
        runtime.settings = settings


def announced(lab: Lab, listener: psycopg.Connection) -> str:
    """Tend the capture, and return what is announced."""
    lab.trickle._runtime.capture_tended = float("-inf")
    tend_capture(lab.trickle._runtime)
    [alert] = listener.notifies(timeout=PATIENCE, stop_after=1)
    return str(json.loads(alert.payload)["event"])


def test_idle_tables_do_not_hold_the_log_back(counted: Lab):
    runtime = counted.trickle._runtime
    name = slot_name(counted)
    where = f"FROM pg_replication_slots WHERE slot_name = '{name}'"
    before = counted.value(f"SELECT confirmed_flush_lsn {where}")
    counted.run("CREATE TABLE elsewhere AS SELECT generate_series(1, 1000) AS n")

    runtime.capture_tended = float("-inf")
    tend_capture(runtime)

    assert counted.value(f"SELECT confirmed_flush_lsn > '{before}' {where}")
    counted.window(action="NO_DATA")


def test_slot_health_is_none_without_a_slot(lab: Lab):
    assert lab.trickle.capture.slot_health() is None


def test_lost_slot_is_told_by_the_drain(counted: Lab):
    counted.connection.execute("SELECT pg_drop_replication_slot(%s)", [slot_name(counted)])

    with pytest.raises(SlotLostError):
        drain_wal(counted.trickle._runtime)


@dataclass
class Load:
    """Writers that do all that writers do, until they are told to stop."""

    dsn: str
    stop: threading.Event
    errors: list[Exception]

    def write(self, number: int) -> None:
        source = random.Random(number)
        with suppress(psycopg.errors.AdminShutdown), psycopg.connect(self.dsn) as connection:
            while not self.stop.is_set():
                try:
                    self._transaction(connection, source, number)
                except psycopg.errors.OperationalError:  # a deadlock or a lock timeout
                    connection.rollback()
                except Exception as error:  # noqa: BLE001 - told to the test
                    self.errors.append(error)
                    return

    def _transaction(
        self, connection: psycopg.Connection, source: random.Random, number: int
    ) -> None:
        key = source.randrange(50) * 10 + number
        for _ in range(source.randrange(1, 4)):
            match source.randrange(4):
                case 0:
                    connection.execute(
                        "INSERT INTO t VALUES (%s, %s, 'new') ON CONFLICT (id) DO UPDATE"
                        " SET k = t.k + 1",
                        [key, source.randrange(5)],
                    )
                case 1:
                    connection.execute("UPDATE t SET k = k + 1 WHERE id = %s", [key])
                case 2:
                    connection.execute("DELETE FROM t WHERE id = %s", [key])
                case _:
                    with suppress(psycopg.errors.DivisionByZero), connection.transaction():
                        connection.execute("UPDATE t SET k = 9 WHERE id = %s", [key])
                        connection.execute("SELECT 1 / 0")
        if source.randrange(5):
            connection.commit()
        else:
            connection.rollback()


def test_p57_hand_over_under_load_loses_nothing_and_doubles_nothing(wal: Lab):
    wal.run(*T)
    create(wal, "copy", COPY, cdc_mode="trigger")
    create(wal, "counts", COUNTS, cdc_mode="trigger")
    load = Load(wal.trickle.dsn, threading.Event(), [])
    threads = [threading.Thread(target=load.write, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    seen = []
    try:
        for turn in range(8):
            wal.trickle.alter_stream_table("copy", cdc_mode="trigger" if turn % 2 else "wal")
            seen.append(modes(wal)["t"])
            wal.trickle.alter_stream_table("counts", cdc_mode="trigger" if turn % 2 else "wal")
            seen.append(modes(wal)["t"])
            for name in ("copy", "counts", "copy"):
                report = wal.trickle.refresh_stream_table(name)
                assert report.action.value in {"DIFFERENTIAL", "NO_DATA"}, report.reason
                assert wal.trickle.verify_stream_table(name).ok
    finally:
        load.stop.set()
        for thread in threads:
            thread.join()
    assert load.errors == []
    assert {"WAL", "TRIGGER"} <= set(seen)
    for name in ("copy", "counts"):
        wal.trickle.refresh_stream_table(name)
        wal.check(name)


def test_table_in_use_keeps_its_triggers_and_is_handed_over_later(
    wal: Lab, writer: psycopg.Connection
):
    wal.run(*T, "ALTER TABLE t REPLICA IDENTITY FULL")
    create(wal, "copy", COPY, cdc_mode="trigger")
    writer.execute("INSERT INTO t VALUES (10, 2)")
    runtime = wal.trickle._runtime
    settings = runtime.settings
    runtime.settings = replace(settings, wal_transition_timeout_seconds=1)
    try:
        with pytest.raises(WalUnavailableError):  # the slot waits for the writer
            wal.trickle.alter_stream_table("copy", cdc_mode="wal")
    finally:
        runtime.settings = settings
    assert (modes(wal), slots(wal)) == ({"t": "TRIGGER"}, 0)
    wal.window("INSERT INTO t VALUES (3, 1)")
    writer.commit()

    runtime.capture_tended = float("-inf")
    tend_capture(runtime)

    assert modes(wal) == {"t": "WAL"}
    wal.window()
    wal.window("DELETE FROM t WHERE id = 10")
