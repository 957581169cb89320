"""The copy in the lake: whatever a refresh does, DuckDB answers as PostgreSQL does."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import LakeSinkError, NameTakenError, TrickleError
from pgtrickle.lake.write import delete_rows
from pgtrickle.model.version import VERSION
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.ducklake import lake_client
from tests.fixtures.engines import Borrowed
from tests.lake.shore import COPY, SUMS, Shore


def test_first_load_reaches_the_lake_with_the_table(shore: Shore):
    shore.create("sums", SUMS)

    assert shore.status() == ("DELIVERED", 0, None)
    assert len(shore.files()) == 1


def test_renamed_stream_table_is_copied_to_the_lake_table_that_it_has(shore: Shore):
    shore.create("sums", SUMS)

    shore.trickle.rename_stream_table("sums", "totals")

    shore.run("UPDATE t SET v = v + 1 WHERE k = 1")
    shore.trickle.refresh_stream_table("totals")
    assert sorted(shore.ask("TABLE sums")) == sorted(shore.tell("TABLE totals"))
    shore.trickle.drop_stream_table("totals")
    assert shore.ask("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'sums'") == [(0,)]


def test_refresh_writes_only_its_difference(shore: Shore):
    shore.run("INSERT INTO t SELECT i, i, i, 'more' FROM generate_series(101, 20000) AS i")
    shore.create("copy", "SELECT id, k, v, s FROM t")
    [first] = shore.files()

    shore.window("copy", "UPDATE t SET v = v + 1 WHERE id <= 20", "DELETE FROM t WHERE id = 50")

    added = [path for path in shore.files() if path != first]
    assert sum(path.stat().st_size for path in added) < first.stat().st_size / 10
    [(written, deleted)] = shore.tell(
        "SELECT rows_written, rows_deleted FROM pgtrickle.pgt_ducklake_sink_delivery"
        " ORDER BY delivery_id DESC LIMIT 1"
    )
    assert (written, deleted) == (20, 21)


def test_updates_of_groups_keep_their_row_ids(shore: Shore):
    shore.create("sums", SUMS)
    before = dict(shore.ask("SELECT k, rowid FROM sums"))

    shore.window("sums", "UPDATE t SET v = 0 WHERE k IN (1, 2)")
    shore.window("sums", "UPDATE t SET v = 1 WHERE k IN (2, 3)")

    assert dict(shore.ask("SELECT k, rowid FROM sums")) == before
    [(snapshot,)] = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")
    changes = shore.ask(
        f"SELECT change_type, k FROM table_changes('sums', {snapshot}, {snapshot}) ORDER BY 1, 2"
    )
    assert changes == [
        ("update_postimage", 2),
        ("update_postimage", 3),
        ("update_preimage", 2),
        ("update_preimage", 3),
    ]


def test_equal_rows_come_and_go_one_by_one(shore: Shore):
    shore.run("UPDATE t SET k = 1, v = 1, s = 'same'")
    shore.create("copy", COPY)

    for number in range(1, 6):
        shore.window("copy", f"DELETE FROM t WHERE id <= {number * 10}")
        shore.window("copy", f"INSERT INTO t VALUES ({1000 + number}, 1, 1, 'same')")

    assert shore.in_lake("copy") == Counter({(1, 1, "same"): 55})


def test_places_that_vacuum_freed_are_used_again(shore: Shore):
    shore.create("copy", COPY)

    for number in range(5):
        shore.window("copy", f"UPDATE t SET s = s || '{number}' WHERE id % 3 = {number % 3}")
        shore.run("VACUUM copy")
        shore.window("copy", f"DELETE FROM t WHERE id % 20 = {number}")
        shore.run("VACUUM copy")
        shore.window("copy", f"INSERT INTO t VALUES ({1000 + number}, 1, 2, 'new')")


def test_rewritten_table_is_loaded_anew(shore: Shore):
    shore.create("copy", COPY)
    shore.window("copy", "DELETE FROM t WHERE id < 20")
    shore.run("VACUUM FULL copy")

    shore.window("copy", "DELETE FROM t WHERE id > 90")


def test_full_refresh_delivers_a_difference_too(shore: Shore):
    shore.create("sums", SUMS, mode="FULL")
    shore.window("sums", "UPDATE t SET v = 9 WHERE id = 1")

    [(written,)] = shore.tell(
        "SELECT rows_written FROM pgtrickle.pgt_ducklake_sink_delivery"
        " ORDER BY delivery_id DESC LIMIT 1"
    )
    assert written == 1


def test_truncate_of_the_source_empties_the_copy_and_it_fills_again(shore: Shore):
    shore.create("sums", SUMS)
    shore.window("sums", "TRUNCATE t")
    shore.window("sums", "INSERT INTO t VALUES (1, 1, 1, 'x')")


def test_many_deletes_go_by_files_that_are_merged(shore: Shore):
    shore.run("INSERT INTO t SELECT i, i, i, 'more' FROM generate_series(101, 9000) AS i")
    shore.create("copy", COPY)

    shore.window("copy", "DELETE FROM t WHERE id % 3 = 0")
    shore.window("copy", "DELETE FROM t WHERE id % 3 = 1 AND id < 100")
    shore.window("copy", "DELETE FROM t WHERE id % 3 = 1")

    [(live,)] = shore.tell("SELECT count(*) FROM lake.ducklake_delete_file")
    assert live == 1
    assert delete_rows.INLINE_LIMIT < 9000 / 3


def test_file_whose_rows_are_all_gone_ends(shore: Shore):
    shore.run("INSERT INTO t SELECT i, i, i, 'more' FROM generate_series(101, 3000) AS i")
    shore.create("copy", COPY)
    shore.window("copy", "DELETE FROM t WHERE id < 100")
    shore.window("copy", "DELETE FROM t")

    assert shore.tell(
        "SELECT count(*) FROM lake.ducklake_data_file WHERE end_snapshot IS NULL"
    ) == [(0,)]


def test_deletes_are_told_once_although_the_file_ends_later(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
):
    shore.create("copies", COPY)
    shore.window("copies", "DELETE FROM t WHERE id = 1")
    monkeypatch.setattr(delete_rows, "INLINE_LIMIT", 10)
    shore.window("copies", "TRUNCATE t")

    assert _changes(shore, "copies") == [(1, "insert", 100), (2, "delete", 1), (3, "delete", 99)]


def test_deletes_are_told_once_although_all_rows_are_loaded_anew(shore: Shore):
    shore.create("copies", COPY)
    shore.window("copies", "DELETE FROM t WHERE id = 1")
    shore.run("VACUUM FULL copies")
    shore.window("copies", "DELETE FROM t WHERE id = 2")

    assert _changes(shore, "copies") == [
        (1, "insert", 100),
        (2, "delete", 1),
        (3, "delete", 99),
        (3, "insert", 98),
    ]


def _changes(shore: Shore, name: str) -> list[tuple[Any, ...]]:
    """Return how many rows of each kind ``table_changes`` tells for each snapshot."""
    return shore.ask(
        f"SELECT snapshot_id, change_type, count(*) FROM table_changes('{name}', 1, 3)"
        " GROUP BY ALL ORDER BY ALL"
    )


def test_time_travel_shows_every_refresh(shore: Shore):
    shore.create("sums", SUMS)
    history = []
    for number in range(8):
        shore.window("sums", f"UPDATE t SET v = {number} WHERE id = {number * 3 + 1}")
        [(snapshot,)] = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")
        history.append((snapshot, Counter(shore.tell("TABLE sums"))))

    for snapshot, rows in history:
        assert shore.in_lake("sums", snapshot) == rows


def test_snapshot_says_which_refresh_it_came_from(shore: Shore):
    shore.create("sums", SUMS)
    report = shore.window("sums", "UPDATE t SET v = 0 WHERE id = 1")

    [(author, message, extra)] = shore.ask(
        "SELECT author, commit_message, commit_extra_info FROM lake.snapshots()"
        " ORDER BY snapshot_id DESC LIMIT 1"
    )
    assert (author, message) == ("pgtrickle", f"refresh {report.refresh_id} of public.sums")
    facts = json.loads(extra)
    assert facts["refresh_id"] == report.refresh_id
    relid = shore.tell("SELECT 'sums'::regclass::oid::bigint")[0][0]
    assert facts["created_by"] == f"pg_trickle/{VERSION}/stream_table/{relid}/public.sums"
    [(name, refresh_id, rows)] = shore.tell(
        "SELECT stream_table_name, refresh_id, delta_row_count FROM"
        " pgtrickle.pgt_ducklake_provenance ORDER BY provenance_id DESC LIMIT 1"
    )
    assert (name, refresh_id, rows) == ("public.sums", report.refresh_id, 2)


def test_status_has_the_last_delivery_beside_the_sums(shore: Shore):
    shore.create("copy", COPY)
    [loaded] = shore.trickle.lake.ducklake_sink_status()
    shore.window("copy", "UPDATE t SET v = v + 1 WHERE id <= 2")

    [found] = shore.trickle.lake.ducklake_sink_status()

    assert (loaded.last_rows, loaded.last_bytes) == (loaded.rows_written, loaded.bytes_written)
    assert found.last_rows == 4  # two that were there, and what they became
    assert found.last_bytes == found.bytes_written - loaded.bytes_written
    assert found.failed_attempts == 0


def test_lake_and_table_become_visible_together_or_not_at_all(shore: Shore):
    shore.create("sums", SUMS)
    shore.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no'; END $$",
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON sums DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION refuse()",
        "UPDATE t SET v = 0",
    )
    before = shore.in_lake("sums")

    with pytest.raises(TrickleError):
        shore.trickle.refresh_stream_table("sums")

    assert shore.in_lake("sums") == before
    shore.run("DROP TRIGGER late ON sums")
    shore.window("sums")


def test_copy_that_others_wrote_to_is_made_right_again(shore: Shore):
    shore.create("sums", SUMS)
    shore.ask("DELETE FROM sums WHERE k = 1")
    shore.ask("INSERT INTO sums VALUES (99, 1, 1, 1)")

    shore.window("sums", "UPDATE t SET v = 0 WHERE id = 3")


def test_copy_that_duckdb_has_compacted_is_followed_on(shore: Shore):
    shore.create("sums", SUMS)
    for number in range(4):
        shore.window("sums", f"UPDATE t SET v = {number} WHERE id < 4")
    shore.ask("CALL ducklake_flush_inlined_data('lake')")
    shore.window("sums", "UPDATE t SET v = 77 WHERE id < 4")
    shore.ask("CALL ducklake_merge_adjacent_files('lake')")

    shore.window("sums", "UPDATE t SET v = 78 WHERE id < 6")


def test_sink_is_turned_on_off_and_on_again(shore: Shore):
    shore.trickle.create_stream_table("sums", SUMS)
    assert shore.trickle.lake.ducklake_sink_status() == []

    shore.trickle.alter_stream_table("sums", sink="ducklake")
    shore.check("sums")
    shore.window("sums", "UPDATE t SET v = 3 WHERE id = 3")
    kept = shore.in_lake("sums")
    shore.trickle.alter_stream_table("sums", sink="none")
    shore.run("UPDATE t SET v = 4 WHERE id = 4")
    shore.trickle.refresh_stream_table("sums")
    assert shore.in_lake("sums") == kept

    shore.trickle.alter_stream_table("sums", sink="ducklake")
    shore.check("sums")


def test_drop_ends_the_copy_and_leaves_no_state(shore: Shore):
    shore.create("sums", SUMS)
    [(snapshot,)] = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")
    rows = Counter(shore.tell("TABLE sums"))

    shore.trickle.drop_stream_table("sums")

    assert shore.ask("SHOW TABLES") == []
    assert shore.in_lake("sums", snapshot) == rows
    assert (
        shore.tell(
            "SELECT relname FROM pg_class WHERE relnamespace = 'pgtrickle_state'::regnamespace"
            " AND relname LIKE 'lake%'"
        )
        == []
    )


def test_name_that_the_lake_gave_away_is_refused(shore: Shore):
    shore.ask("CREATE TABLE sums (other int)")

    with pytest.raises(LakeSinkError):
        shore.trickle.create_stream_table("sums", SUMS, sink="ducklake")
    assert shore.trickle.list_stream_tables() == []


def test_two_stream_tables_cannot_share_a_lake_table(shore: Shore):
    shore.create("sums", SUMS)

    with pytest.raises(LakeSinkError):
        shore.trickle.create_stream_table("other", SUMS, sink="ducklake", ducklake_table="sums")


@pytest.mark.parametrize("path", ["relative/path", "gs://bucket/path"])
def test_path_that_cannot_be_written_is_refused_at_once(shore: Shore, path: str):
    with pytest.raises(LakeSinkError):
        shore.trickle.create_stream_table("sums", SUMS, sink="ducklake", ducklake_sink_path=path)
    assert shore.trickle.list_stream_tables() == []


def test_sink_that_does_not_exist_is_refused(shore: Shore):
    with pytest.raises(LakeSinkError):
        shore.trickle.create_stream_table("sums", SUMS, sink="iceberg")


def test_copy_may_have_a_schema_and_a_directory_of_its_own(shore: Shore, tmp_path: Path):
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    shore.trickle.create_stream_table(
        "sums",
        SUMS,
        sink="ducklake",
        ducklake_table='marts."Daily Sums"',
        ducklake_sink_path=str(elsewhere),
    )
    shore.run("UPDATE t SET v = 0 WHERE id = 1")
    shore.trickle.refresh_stream_table("sums")

    assert shore.in_lake('marts."Daily Sums"') == Counter(shore.tell("TABLE sums"))
    assert shore.files() == []
    assert list(elsewhere.rglob("*.parquet"))


def test_name_of_a_lake_table_does_not_lead_out_of_the_lake(shore: Shore):
    shore.trickle.create_stream_table(
        "sums", SUMS, sink="ducklake", ducklake_table='"../up"."../../and away"'
    )

    assert shore.in_lake('"../up"."../../and away"') == Counter(shore.tell("TABLE sums"))
    assert len(shore.files()) == 1


def test_catalog_is_made_where_there_is_none(
    database: str, duckdb_engine: DuckDbEngine, tmp_path: Path
):
    settings = load_settings({}, dsn=database, ducklake_catalog_schema="new lake")
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pgtrickle.connect(engine=Borrowed(duckdb_engine), settings=settings) as trickle,
    ):
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
        with pytest.raises(TrickleError):
            trickle.create_stream_table("copy", "SELECT a FROM t", sink="ducklake")
        trickle.create_stream_table(
            "copy", "SELECT a FROM t", sink="ducklake", ducklake_sink_path=str(tmp_path)
        )
        with lake_client(database, "new lake") as client:
            assert client.execute("SELECT * FROM copy").fetchall() == [(1,)]


def test_stream_table_that_exists_is_not_touched_by_a_second_create(shore: Shore):
    shore.create("sums", SUMS)

    with pytest.raises(NameTakenError):
        shore.trickle.create_stream_table("sums", SUMS, sink="ducklake")
    shore.check("sums")


def test_session_that_refreshes_keeps_its_settings_for_triggers_at_the_end(shore: Shore):
    shore.create("sums", SUMS)
    shore.run(
        "CREATE TABLE seen (path text, zone text)",
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.seen VALUES"
        " (current_setting('search_path'), current_setting('timezone')); RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON sums DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION look()",
    )

    shore.window("sums", "UPDATE t SET v = 0 WHERE id = 1")

    [(path, zone)] = shore.tell("TABLE seen")
    assert path == "pg_catalog, pg_temp"  # as everything that a refresh sets off
    assert zone == shore.tell("SHOW timezone")[0][0]


def test_functions_of_users_do_not_take_the_place_of_those_of_postgresql(shore: Shore):
    shore.run(
        "CREATE FUNCTION public.scale(numeric) RETURNS int LANGUAGE sql AS 'SELECT 0'",
        "CREATE FUNCTION public.encode(bytea, text) RETURNS text LANGUAGE sql AS $$ SELECT '' $$",
        f"ALTER DATABASE {shore.connection.info.dbname} SET search_path = public, pg_catalog",
        "CREATE TABLE typed (id int PRIMARY KEY, n numeric, b bytea)",
        "INSERT INTO typed VALUES (1, 1.25, 'x')",
    )
    settings = load_settings({}, dsn=shore.trickle.dsn, ducklake_catalog_schema="lake")
    with pgtrickle.connect(engine=Borrowed(DuckDbEngine()), settings=settings) as trickle:
        trickle.create_stream_table("copy", "SELECT id, n, b FROM typed", sink="ducklake")

    assert shore.ask("SELECT n, b FROM copy") == [(Decimal("1.25"), b"x")]


def test_refresh_without_changes_makes_no_snapshot(shore: Shore):
    shore.create("sums", SUMS)
    before = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")

    shore.trickle.refresh_stream_table("sums")

    assert shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()") == before


def test_files_of_a_delivery_that_failed_are_taken_away(shore: Shore):
    shore.create("sums", SUMS)
    kept = shore.files()
    shore.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no'; END $$",
        "CREATE TRIGGER refuse BEFORE INSERT ON lake.ducklake_snapshot"
        " FOR EACH ROW EXECUTE FUNCTION refuse()",
        "UPDATE t SET v = 0",
    )

    shore.trickle.refresh_stream_table("sums")

    assert shore.status()[0] == "FAILED_RETRYABLE"
    assert shore.files() == kept
