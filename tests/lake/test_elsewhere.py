"""A lake whose catalog is in another database: what is done there, and what if that is down."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import LakeSinkError, LakeSourceError, LakeUnreachableError, TrickleError
from pgtrickle.lake.format.catalog import create_catalog
from pgtrickle.lake.upkeep import merge_files
from pgtrickle.lake.write import text_settings as session
from pgtrickle.lake.write.endpoints import Ends
from pgtrickle.service.lifecycle import verify
from pgtrickle.service.sinks.ducklake import delivery as lake_sink
from pgtrickle.service.sinks.ducklake import upkeep as lake_maintain
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fakes.spreading import SpreadingEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.restartable import OwnServer
from tests.labs.hearing import PATIENCE
from tests.lake.shore import COPY, LAKE_DSN, SOURCE, SUMS, FarShore, open_far_shore
from tests.lake.test_delivery import down
from tests.seeds import seed_of


def test_refreshes_reach_the_lake_and_nothing_of_it_is_here(far: FarShore):
    far.create("sums", SUMS)
    far.create("copies", COPY)
    far.window("sums", "UPDATE t SET v = v + 1 WHERE id < 20", "DELETE FROM t WHERE id = 77")
    far.window("copies", "INSERT INTO t VALUES (1001, 1, 2, 'n')")

    assert far.tell("SELECT count(*) FROM pg_class WHERE relname LIKE 'ducklake%'") == [(0,)]
    assert far.provenance() == far.snapshots()
    assert far.intents() == 0
    assert far.ask("SELECT count(*) FROM public.sums") == [(5,)]  # the view
    [(last, _)] = far.snapshots()[-2:-1]
    changes = far.ask(
        f"SELECT DISTINCT change_type FROM lake.table_changes('sums', {last}, {last})"
    )
    assert ("update_postimage",) in changes


def test_refresh_without_changes_asks_nothing_of_the_other_database(
    far: FarShore, monkeypatch: pytest.MonkeyPatch
):
    far.create("sums", SUMS)
    monkeypatch.setenv(LAKE_DSN, "host=/nowhere")

    far.trickle.refresh_stream_table("sums")

    assert far.status() == ("DELIVERED", 0, None)


def test_twenty_refreshes_while_the_other_database_is_down_and_then_one_delivery(
    far: FarShore, own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(LAKE_DSN, own_server.dsn)
    with psycopg.connect(own_server.dsn, autocommit=True) as connection:
        create_catalog(connection, "lake", str(far.path / "own"))
    far.trickle.create_stream_table("copy", COPY, refresh_mode="DIFFERENTIAL", sink="ducklake")
    own_server.stop()
    for number in range(20):
        far.run(
            f"UPDATE t SET s = 'r{number}' WHERE id % 7 = {number % 7}",
            f"DELETE FROM t WHERE id = {number * 4 + 1}",
            f"INSERT INTO t VALUES ({1000 + number}, 1, 1, 'n')",
            f"DELETE FROM t WHERE id = {1000 + number - 3}",
            "VACUUM copy",
        )
        far.trickle.refresh_stream_table("copy")
    status, _, error = far.status()
    assert (status, (error or "")[:5]) == ("FAILED_RETRYABLE", "ST707")
    care = far.trickle.lake.maintain_lake(timedelta(0), timedelta(days=1))
    assert [one.error is not None for one in care.sinks] == [True]
    own_server.start()

    assert far.trickle.lake.retry_sink("copy").status.value == "DELIVERED"

    with psycopg.connect(own_server.dsn, autocommit=True) as connection:
        # A load and one difference, of the rows that are not as they were.
        counted = connection.execute(
            "SELECT count(*) FROM lake.ducklake_snapshot_changes WHERE author = 'pgtrickle'"
        ).fetchall()
    assert counted == [(2,)]
    [(rows,)] = far.tell("SELECT count(*) FROM copy")
    [one] = far.trickle.lake.ducklake_sink_status()
    assert rows == 83
    assert one.rows_written < 200


def test_database_that_is_down_for_long_is_tried_again_and_again(
    far: FarShore, monkeypatch: pytest.MonkeyPatch
):
    far.create("sums", SUMS)
    far.run("UPDATE t SET v = 0 WHERE id = 1")
    with monkeypatch.context() as away:
        away.setenv(LAKE_DSN, "host=/nowhere")
        for _ in range(7):
            far.trickle.refresh_stream_table("sums")
            far.run("UPDATE pgtrickle.pgt_ducklake_sink_delivery SET next_attempt_at = now()")
    assert far.status()[:2] == ("FAILED_RETRYABLE", 7)

    far.trickle.daemon.tend_lake()

    far.check("sums")


def test_lake_directory_that_was_down_is_caught_up_with(far: FarShore):
    far.create("copies", COPY)
    before = far.in_lake("copies")
    with down(far):
        far.run("UPDATE t SET s = 'x' WHERE id < 10")
        far.trickle.refresh_stream_table("copies")
        assert far.status()[0] == "FAILED_RETRYABLE"
    assert far.in_lake("copies") == before
    assert far.intents() == 0

    far.trickle.lake.retry_sink("copies")

    far.check("copies")


class _LostError(psycopg.OperationalError):
    pass


def _lose(monkeypatch: pytest.MonkeyPatch, module: Any, function: str, *, committed: bool) -> None:
    """Let the next commit in the other database end in doubt: it was made, or it was not."""
    call: Callable[..., Any] = getattr(module, function)

    def called(*arguments: Any, **named: Any) -> Any:
        call(*arguments, **named)
        ends = next(one for one in arguments if isinstance(one, Ends))
        if committed:
            ends.lake.execute("COMMIT")
        monkeypatch.setattr(module, function, call)
        raise _LostError("the connection is lost")

    monkeypatch.setattr(module, function, called)


@pytest.mark.parametrize("committed", [True, False])
def test_commit_in_doubt_is_settled_by_the_next_delivery(
    far: FarShore, monkeypatch: pytest.MonkeyPatch, *, committed: bool
):
    far.create("copies", COPY)
    _lose(monkeypatch, lake_sink, "commit_intent", committed=committed)
    far.run("UPDATE t SET s = 'x' WHERE id < 10", "INSERT INTO t VALUES (500, 1, 1, 'gone soon')")
    far.trickle.refresh_stream_table("copies")
    assert (far.status()[0], far.intents()) == ("FAILED_RETRYABLE", 1)
    # Rows of which nobody knows where they are go away, and others take their places.
    far.run(
        "UPDATE pgtrickle.pgt_ducklake_sink_delivery"
        " SET next_attempt_at = now() + interval '1 hour' WHERE status <> 'DELIVERED'",
        "DELETE FROM t WHERE id IN (500, 3, 4, 50)",
    )
    far.trickle.refresh_stream_table("copies")
    far.run(
        "VACUUM copies", "INSERT INTO t SELECT i, 2, 2, 'late' FROM generate_series(600, 604) i"
    )
    far.trickle.refresh_stream_table("copies")
    assert far.intents() == 1

    far.trickle.lake.retry_sink("copies")

    far.check("copies")
    assert far.intents() == 0
    assert far.provenance() == far.snapshots()
    assert len(far.snapshots()) == (3 if committed else 2)
    assert set(far.files()) == far.known()
    assert far.status() == ("DELIVERED", 0, None)
    far.window("copies", "DELETE FROM t WHERE id % 3 = 0")
    [(dead,)] = far.tell("SELECT count(*) FROM pgtrickle.pgt_ducklake_sink_delivery")
    assert dead == len(far.snapshots())


@pytest.mark.parametrize("committed", [True, False])
def test_first_load_in_doubt_is_settled_while_refreshes_go_on(
    far: FarShore, monkeypatch: pytest.MonkeyPatch, *, committed: bool
):
    _lose(monkeypatch, lake_sink, "commit_intent", committed=committed)
    far.trickle.create_stream_table("sums", SUMS, refresh_mode="DIFFERENTIAL", sink="ducklake")
    far.run(
        "UPDATE pgtrickle.pgt_ducklake_sink_delivery"
        " SET next_attempt_at = now() + interval '1 hour' WHERE status <> 'DELIVERED'",
        "UPDATE t SET v = 9 WHERE id = 1",
    )
    far.trickle.refresh_stream_table("sums")
    assert far.intents() == 1

    far.trickle.lake.retry_sink("sums")

    far.check("sums")
    assert far.provenance() == far.snapshots()
    [one] = far.trickle.lake.ducklake_sink_status()
    assert one.rows_written == (6 if committed else 5)
    assert set(far.files()) == far.known()


@pytest.mark.parametrize("committed", [True, False])
def test_merge_in_doubt_is_settled_while_refreshes_go_on(
    far: FarShore, monkeypatch: pytest.MonkeyPatch, *, committed: bool
):
    monkeypatch.setattr(merge_files, "FEWEST", 3)
    far.create("copies", COPY)
    for number in range(4):
        far.window(
            "copies",
            f"INSERT INTO t SELECT {number} * 10 + i, 1, 1, 'm' FROM generate_series(1001, 1005) i",
        )
    _lose(monkeypatch, lake_maintain, "_compact", committed=committed)
    [care] = far.trickle.lake.maintain_lake(timedelta(0)).sinks
    assert care.error is not None
    assert far.intents() == 1
    far.run("DELETE FROM t WHERE id IN (1002, 1013, 7)", "UPDATE t SET s = 'u' WHERE id = 1024")
    far.trickle.refresh_stream_table("copies")

    far.check("copies")
    assert far.intents() == 0
    [care] = far.trickle.lake.maintain_lake(timedelta(0)).sinks
    assert care.error is None
    far.check("copies")
    assert set(far.files()) == far.known()
    far.window("copies", "DELETE FROM t WHERE id > 1000")
    assert not far.tell("SELECT FROM pgtrickle.pgt_ducklake_sinks WHERE needs_load")


def test_connection_that_is_ended_before_its_commit_leaves_nothing(
    far: FarShore, monkeypatch: pytest.MonkeyPatch
):
    far.create("sums", SUMS)
    commit_intent = lake_sink.commit_intent

    def ended(*arguments: Any, **named: Any) -> Any:
        intent = commit_intent(*arguments, **named)
        pid = arguments[1].lake.info.backend_pid
        far.in_catalog(f"SELECT pg_terminate_backend({pid}, 60000)")
        return intent

    far.run("UPDATE t SET v = 0 WHERE id = 1")
    with monkeypatch.context() as patched:
        patched.setattr(lake_sink, "commit_intent", ended)
        far.trickle.refresh_stream_table("sums")
    status, _, error = far.status()
    assert (status, (error or "")[:5]) == ("FAILED_RETRYABLE", "ST707")

    far.trickle.lake.retry_sink("sums")

    far.check("sums")
    assert len(far.snapshots()) == 2
    assert set(far.files()) == far.known()


_MORE = "INSERT INTO t SELECT i, i % 5, i, 's' || i FROM generate_series({}, {}) AS i"
_GROUPS = "SELECT id % 1000 AS g, sum(v) AS total, count(*) AS n FROM t GROUP BY 1"


@pytest.mark.parametrize("committed", [True, False])
def test_large_load_and_large_difference_are_written_in_parts_and_settled(
    database: str,
    other_database: str,
    spreading: SpreadingEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    committed: bool,
):
    monkeypatch.setenv(LAKE_DSN, other_database)
    monkeypatch.setattr(lake_sink, "largest_in_place", lambda _: 10_000)
    with open_far_shore(database, other_database, spreading, tmp_path) as far:
        far.run(*SOURCE, _MORE.format(101, 1000))
        far.create("groups", _GROUPS)
        assert spreading.spreads == [4]
        far.check("groups")
        row_ids = dict(far.ask("SELECT g, rowid FROM groups"))

        _lose(monkeypatch, lake_sink, "commit_intent", committed=committed)
        far.run(_MORE.format(1001, 2000))
        far.trickle.refresh_stream_table("groups")
        assert far.intents() == 1
        far.run("UPDATE t SET v = v + 1 WHERE id % 2 = 0")
        far.trickle.lake.retry_sink("groups")
        far.window("groups", _MORE.format(2001, 3000), "DELETE FROM t WHERE id % 20 = 3")

        assert far.intents() == 0
        assert far.provenance() == far.snapshots()
        after = dict(far.ask("SELECT g, rowid FROM groups"))
        assert after == {g: row_id for g, row_id in row_ids.items() if g % 20 != 3}
        far.trickle.lake.maintain_lake(older_than=timedelta(0))
        assert set(far.files()) == far.known()


# For its turn, that is.
_WAITING = (
    "SELECT FROM pg_locks WHERE NOT granted AND mode = 'ShareUpdateExclusiveLock'"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def test_process_that_was_thought_dead_between_its_commits_delivers_nothing_twice(
    far: FarShore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(session._SETTINGS, "lock_timeout", f"{PATIENCE}s")
    far.create("copies", COPY)
    far.run("UPDATE t SET s = 'x' WHERE id < 10")
    commit_intent = lake_sink.commit_intent
    committed, waited_for = threading.Event(), threading.Event()

    def slow(*arguments: Any, **named: Any) -> Any:
        intent = commit_intent(*arguments, **named)
        monkeypatch.setattr(lake_sink, "commit_intent", commit_intent)
        committed.set()
        assert waited_for.wait(PATIENCE)
        return intent

    monkeypatch.setattr(lake_sink, "commit_intent", slow)
    with (
        pgtrickle.connect(
            far.trickle.dsn, engine=Borrowed(DuckDbEngine()), settings=far.trickle._runtime.settings
        ) as zombie,
        ThreadPoolExecutor(2) as threads,
    ):
        first = threads.submit(zombie.refresh_stream_table, "copies")
        assert committed.wait(PATIENCE)
        far.run("DELETE FROM pgtrickle.pgt_leases")
        second = threads.submit(far.trickle.lake.retry_sink, "copies")
        # It waits for the lock of the lake, which the first one holds until its commit.
        while not far.in_catalog(_WAITING):
            assert not second.done()
            time.sleep(0.02)
        waited_for.set()
        first.exception(PATIENCE)
        assert second.result(PATIENCE).status.value == "DELIVERED"

    far.check("copies")
    assert far.intents() == 0
    assert far.provenance() == far.snapshots()
    assert len(far.snapshots()) == 2
    far.window("copies", "DELETE FROM t WHERE id < 20")


def test_snapshot_that_has_expired_in_doubt_is_made_good_by_a_load(
    far: FarShore, monkeypatch: pytest.MonkeyPatch
):
    far.create("copies", COPY)
    _lose(monkeypatch, lake_sink, "commit_intent", committed=True)
    far.run("DELETE FROM t WHERE id < 10")
    far.trickle.refresh_stream_table("copies")
    far.ask("CREATE TABLE theirs (id int)")
    far.ask("CALL ducklake_expire_snapshots('lake', older_than => now())")

    far.trickle.lake.retry_sink("copies")

    far.check("copies")
    assert far.intents() == 0
    far.window("copies", "DELETE FROM t WHERE id < 20")


def test_database_that_was_set_back_behind_its_lake_is_loaded_anew(far: FarShore):
    far.create("copies", COPY)
    [(sink,)] = far.tell("SELECT snapshot_id FROM pgtrickle.pgt_ducklake_sinks")
    far.window("copies", "INSERT INTO t VALUES (500, 1, 1, 'n')")
    # As if this database had lost its last commit: nothing here knows of the snapshot.
    far.run(f"UPDATE pgtrickle.pgt_ducklake_sinks SET snapshot_id = {sink}")
    far.window("copies", "INSERT INTO t VALUES (501, 1, 1, 'n')")

    far.window("copies", "DELETE FROM t WHERE id = 500")


def test_verify_delivers_first_and_then_lets_refreshes_go_on(
    far: FarShore, monkeypatch: pytest.MonkeyPatch
):
    far.create("sums", SUMS)
    far.run("UPDATE t SET v = 0 WHERE id = 1")
    compare = verify._compare
    seen: list[object] = []

    def look(*arguments: Any) -> Any:
        seen.append(far.status())
        far.run("UPDATE t SET v = 7 WHERE id = 2")
        seen.append(far.trickle.refresh_stream_table("sums").action.value)
        return compare(*arguments)

    monkeypatch.setattr(verify, "_compare", look)

    assert far.trickle.verify_stream_table("sums").ok
    assert seen == [("DELIVERED", 0, None), "DIFFERENTIAL"]
    monkeypatch.undo()
    far.check("sums")


def test_duckdb_that_writes_to_the_copy_is_overruled(far: FarShore):
    far.create("copies", COPY)
    far.ask("DELETE FROM copies WHERE k = 1")

    far.window("copies", "UPDATE t SET v = 0 WHERE id = 2")


def test_sink_off_and_on_again_and_dropped(far: FarShore):
    far.create("sums", SUMS)
    far.trickle.alter_stream_table("sums", sink="none")
    assert far.ask("SELECT count(*) FROM sums") == [(5,)]
    assert not far.ask("SELECT 1 FROM duckdb_views() WHERE schema_name = 'public' AND NOT internal")
    assert not far.tell("SELECT FROM pg_class WHERE relname LIKE 'lake~_%' ESCAPE '~'")
    far.run("UPDATE t SET v = 0 WHERE id = 1")
    far.trickle.refresh_stream_table("sums")

    far.trickle.alter_stream_table("sums", sink="ducklake", ducklake_partition_by="k")

    far.check("sums")
    far.window("sums", "UPDATE t SET v = 5 WHERE id = 1")
    far.trickle.drop_stream_table("sums")
    assert not far.ask("SELECT 1 FROM duckdb_tables() WHERE table_name = 'sums'")


def test_drop_while_the_other_database_is_down_leaves_the_copy(
    far: FarShore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    far.create("sums", SUMS)
    with monkeypatch.context() as away, caplog.at_level(logging.WARNING):
        away.setenv(LAKE_DSN, "host=/nowhere")
        far.trickle.drop_stream_table("sums")
    assert "could not be ended" in caplog.text
    assert far.ask("SELECT count(*) FROM sums") == [(5,)]

    far.create("sums", SUMS)  # takes it over


@pytest.mark.parametrize("committed", [True, False])
def test_drop_of_a_copy_whose_first_load_is_in_doubt(
    far: FarShore, monkeypatch: pytest.MonkeyPatch, *, committed: bool
):
    _lose(monkeypatch, lake_sink, "commit_intent", committed=committed)
    far.trickle.create_stream_table("sums", SUMS, sink="ducklake")
    assert far.intents() == 1

    far.trickle.drop_stream_table("sums")

    assert not far.ask("SELECT 1 FROM duckdb_tables() WHERE table_name = 'sums'")
    assert set(far.files()) == far.known()


def test_columns_that_change_are_followed(far: FarShore):
    far.create("copies", COPY)
    far.trickle.alter_stream_table("copies", query="SELECT v, s, k + 1 AS k1 FROM t")
    far.check("copies")
    far.window("copies", "DELETE FROM t WHERE id < 10")
    far.run("CREATE TABLE u (n numeric)", "INSERT INTO u VALUES (0.5)")
    far.create("digits", "SELECT n FROM u")
    far.window("digits", "INSERT INTO u VALUES (0.123456)")


def test_members_of_a_diamond_are_delivered_when_all_are_committed(far: FarShore):
    far.create("low", "SELECT id, k, v FROM t WHERE v < 60")
    far.create("high", "SELECT id, k, v FROM t WHERE v >= 60")
    far.create(
        "joint",
        "SELECT low.k, sum(low.v + high.v) AS v FROM low JOIN high USING (k) GROUP BY low.k",
    )

    far.window("joint", "UPDATE t SET v = v + 20 WHERE id % 3 = 0", "DELETE FROM t WHERE id = 7")

    for name in ("low", "high"):
        far.check(name)


def test_catalog_is_made_there(far: FarShore, database: str):
    with psycopg.connect(database) as connection:
        assert not connection.execute("SELECT FROM pg_namespace WHERE nspname = 'lake2'").fetchall()
    settings = load_settings(
        {}, ducklake_catalog_schema="lake2", ducklake_catalog_dsn=f"${{ENV:{LAKE_DSN}}}"
    )
    with pgtrickle.connect(database, engine=Borrowed(DuckDbEngine()), settings=settings) as trickle:
        trickle.create_stream_table(
            "sums", SUMS, sink="ducklake", ducklake_sink_path=str(far.path / "second")
        )
    [(rows,)] = far.in_catalog("SELECT sum(record_count)::int FROM lake2.ducklake_data_file")
    assert rows == 5


def test_lake_table_of_another_database_is_not_touched(far: FarShore, server_dsn: str):
    far.create("sums", SUMS)
    table = "SELECT object_id FROM lake.ducklake_tag WHERE key = 'pgtrickle_database'"
    [(id_,)] = far.in_catalog(table)
    far.other.execute("UPDATE lake.ducklake_tag SET value = '1/2' WHERE key = 'pgtrickle_database'")
    far.trickle.alter_stream_table("sums", sink="none")

    with pytest.raises(LakeSinkError, match="another database"):
        far.trickle.alter_stream_table("sums", sink="ducklake")

    far.trickle.alter_stream_table("sums", sink="ducklake", ducklake_table="sums2")
    assert far.ask("SELECT count(*) FROM sums2") == [(5,)]
    assert far.in_catalog(f"{table} AND object_id = {id_}") == [(id_,)]


def test_maintenance_merges_flushes_expires_and_sweeps(
    far: FarShore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(merge_files, "FEWEST", 3)
    far.create("copies", COPY)
    for number in range(5):
        far.window("copies", f"UPDATE t SET s = 'm{number}' WHERE id % 9 = {number}")
    stray = next(one for one in far.files()).with_name("ducklake-stray.parquet")
    stray.write_bytes(b"")

    [care] = far.trickle.lake.maintain_lake(timedelta(0)).sinks

    assert care.merged >= 3
    assert care.orphans == (str(stray),)
    assert care.error is None
    far.check("copies")
    assert far.trickle.lake.maintain_lake(timedelta(0), timedelta(0)).expired > 0
    far.check("copies")
    far.window("copies", "DELETE FROM t WHERE id % 2 = 0")
    assert far.intents() == 0
    assert not far.tell("SELECT FROM pgtrickle.pgt_ducklake_sinks WHERE needs_load")


def test_password_is_never_kept(far: FarShore, caplog: pytest.LogCaptureFixture):
    with pytest.raises(LakeSinkError, match="holds a password") as caught:
        _create_with(far, "host=db dbname=lake password=hunter2")
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
    for written in ("postgresql://ann:hunter2@db/lake", "hunter2 host=db", "x=1 hunter2"):
        with pytest.raises(LakeSinkError) as caught:
            _create_with(far, written)
        assert "hunter2" not in f"{caught.value} {caught.value.hint} {caught.value.detail}"
    with pytest.raises(LakeSinkError):
        far.trickle.set_setting("ducklake_catalog_dsn", "host=db password=hunter2")
    for written in ("host=db password='hunter2'", "postgresql://ann:hunter2@db/lake"):
        with pytest.raises(psycopg.errors.CheckViolation):
            far.run(f"SELECT pgtrickle.set_setting('ducklake_catalog_dsn', $${written}$$)")
    for written in (
        "host=db password='${ENV:X}'",
        "host=db password = ${ENV:X}",
        "postgresql://ann:${ENV:PW}@db/lake",
        "${ENV:LAKE_DSN}",
    ):
        far.trickle.set_setting("ducklake_catalog_dsn", written)
    assert "hunter2" not in caplog.text


def test_password_of_the_environment_reaches_neither_catalog_nor_log_nor_error(
    far: FarShore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    far.create("sums", SUMS)
    with monkeypatch.context() as away:
        away.setenv(LAKE_DSN, "host=/nowhere user=ann password=hunter2")
        far.run("UPDATE t SET v = 0 WHERE id = 1")
        far.trickle.refresh_stream_table("sums")
        away.setenv(LAKE_DSN, "hunter2 is no DSN")
        far.trickle.lake.retry_sink("sums")
    kept = far.tell("SELECT s::text, d::text FROM pgtrickle.pgt_ducklake_sinks AS s,"
                    " pgtrickle.pgt_ducklake_sink_delivery AS d")  # fmt: skip
    assert "hunter2" not in f"{kept} {caplog.text}"
    assert f"${{ENV:{LAKE_DSN}}}" in str(kept)
    shown = {one.name: one.value for one in far.trickle.list_settings()}
    assert shown["ducklake_catalog_dsn"] == "***"


def test_variable_that_is_not_set_fails_the_delivery_and_not_the_refresh(
    far: FarShore, monkeypatch: pytest.MonkeyPatch
):
    far.create("sums", SUMS)
    far.run("UPDATE t SET v = 0 WHERE id = 1")
    with monkeypatch.context() as away:
        away.delenv(LAKE_DSN)
        assert far.trickle.refresh_stream_table("sums").rows_inserted == 1
    assert "ST501" in (far.status()[2] or "")

    far.trickle.lake.retry_sink("sums")

    far.check("sums")


def test_what_another_database_cannot_do_is_refused(far: FarShore, database: str):
    with pytest.raises(LakeSinkError, match="cannot fail with a delivery"):
        _create_with(far, f"${{ENV:{LAKE_DSN}}}", ducklake_sink_failure_mode="error")
    with pytest.raises(LakeSourceError, match="in this database"):
        far.trickle.lake.attach_ducklake_table("visits", "main.visits")
    with pytest.raises(LakeUnreachableError, match="cannot be reached"):
        _create_with(far, "host=/nowhere")
    with pytest.raises(TrickleError):
        far.trickle.lake.retry_sink("sums")


def _create_with(far: FarShore, catalog_dsn: str, **more: Any) -> None:
    settings = load_settings(
        {}, ducklake_catalog_schema="lake", ducklake_catalog_dsn=catalog_dsn, **more
    )
    with pgtrickle.connect(
        far.trickle.dsn, engine=Borrowed(DuckDbEngine()), settings=settings
    ) as trickle:
        trickle.create_stream_table("sums", SUMS, sink="ducklake")


def test_random_refreshes_with_commits_in_doubt(far: FarShore, monkeypatch: pytest.MonkeyPatch):
    seed = seed_of("PGTRICKLE_LAKE_SEED", 7)
    print(f"seed {seed}")
    draw = random.Random(seed)
    monkeypatch.setattr(merge_files, "FEWEST", 3)
    names = ("sums", "copies")
    far.create("sums", SUMS)
    far.create("copies", COPY)
    for _ in range(40):
        share = draw.choice([2, 5, 20])
        far.run(
            f"UPDATE t SET v = v + 1, k = (k + {draw.randrange(2)}) % 5 WHERE id % {share} = 0",
            f"DELETE FROM t WHERE id % {share + 7} = {draw.randrange(3)} AND id > 20",
            f"INSERT INTO t SELECT i, i % 5, 1, 'n' FROM (SELECT max(id) AS m FROM t) AS l,"
            f" generate_series(m + 1, m + {draw.choice([0, 2, 30])}) AS i",
            f"VACUUM {draw.choice(names)}",
        )
        if draw.random() < 0.4:
            _lose(monkeypatch, lake_sink, "commit_intent", committed=draw.random() < 0.5)
        name = draw.choice(names)
        far.trickle.refresh_stream_table(name)
        if draw.random() < 0.5:
            continue
        if draw.random() < 0.3:
            _lose(monkeypatch, lake_maintain, "_compact", committed=draw.random() < 0.5)
            far.trickle.lake.maintain_lake(timedelta(0))
        _settle(far, name)
    for name in names:
        _settle(far, name)
        assert far.trickle.verify_stream_table(name).ok
    assert far.provenance() == far.snapshots()
    for _ in range(2):  # the merge that was about to be lost was the first one
        care = far.trickle.lake.maintain_lake(timedelta(0))
    assert [one.error for one in care.sinks] == [None, None]
    for name in names:
        far.check(name)
    assert set(far.files()) == far.known()
    assert far.intents() == 0


def _settle(far: FarShore, name: str) -> None:
    """Deliver until nothing is in doubt, and compare."""
    while far.trickle.lake.retry_sink(name).status.value != "DELIVERED":
        pass  # the commit that was about to be lost was this one
    far.check(name)
