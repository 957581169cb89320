"""Files that nobody needs go; files that somebody may need stay."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from pgtrickle.lake.upkeep import merge_files
from pgtrickle.lake.write import delete_rows
from tests.lake.shore import COPY, SUMS, Shore

_AT_ONCE = timedelta(0)
_DAY = timedelta(days=1)


def _leave(directory: Path, name: str, age: timedelta = _AT_ONCE) -> Path:
    """Leave a file behind, as a writer does that was killed some time ago."""
    path = directory / name
    path.write_bytes(b"PAR1")
    then = time.time() - age.total_seconds()
    os.utime(path, (then, then))
    return path


def test_file_that_no_snapshot_knows_is_removed_and_all_others_stay(shore: Shore):
    shore.create("sums", SUMS)
    shore.window("sums", "UPDATE t SET v = 0 WHERE id = 1")
    before = shore.files()
    orphan = _leave(before[0].parent, "ducklake-left.parquet")

    [care] = shore.trickle.lake.maintain_lake(_AT_ONCE).sinks

    assert (care.orphans, care.error) == ((str(orphan),), None)
    assert shore.files() == before
    shore.check("sums")
    assert shore.in_lake("sums", 1).total() == 5


def test_file_that_may_be_committed_yet_stays(shore: Shore):
    shore.create("sums", SUMS)
    directory = shore.files()[0].parent
    fresh = _leave(directory, "ducklake-fresh.parquet")
    old = _leave(directory, "ducklake-old.parquet", timedelta(days=2))

    [care] = shore.trickle.lake.maintain_lake(_DAY).sinks

    assert care.orphans == (str(old),)
    assert fresh.exists()


def test_files_of_other_programs_stay(shore: Shore):
    shore.create("sums", SUMS)
    other = _leave(shore.files()[0].parent, "notes.txt")

    shore.trickle.lake.maintain_lake(_AT_ONCE)

    assert other.exists()


def test_files_of_a_table_of_the_same_name_before_stay_for_time_travel(shore: Shore):
    shore.create("sums", SUMS)
    [(snapshot,)] = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")
    before = shore.in_lake("sums")
    shore.trickle.drop_stream_table("sums")
    shore.run("DELETE FROM t WHERE k = 1")
    shore.create("sums", SUMS)

    [care] = shore.trickle.lake.maintain_lake(_AT_ONCE).sinks

    assert care.orphans == ()
    assert shore.in_lake("sums", snapshot) == before


def test_delete_file_that_was_replaced_is_removed_when_it_is_old(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delete_rows, "INLINE_LIMIT", 0)
    shore.create("copies", COPY)
    shore.window("copies", "DELETE FROM t WHERE id <= 3")
    [first] = [path for path in shore.files() if "delete" in path.name]
    shore.window("copies", "DELETE FROM t WHERE id <= 6")

    [early] = shore.trickle.lake.maintain_lake(_DAY).sinks
    assert (early.replaced, first.exists()) == ((), True)
    [care] = shore.trickle.lake.maintain_lake(_AT_ONCE).sinks

    assert care.replaced == (str(first),)
    assert not first.exists()
    assert shore.tell("SELECT * FROM lake.ducklake_files_scheduled_for_deletion") == []
    shore.check("copies")


def test_sink_whose_stream_table_is_being_refreshed_is_left_alone(shore: Shore):
    shore.create("sums", SUMS)
    orphan = _leave(shore.files()[0].parent, "ducklake-left.parquet")
    with psycopg.connect(shore.trickle.dsn) as rival:
        rival.execute(
            "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
            " SELECT pgt_id, 'rival', now(), now() + interval '1 h'"
            " FROM pgtrickle.pgt_stream_tables"
        )
        rival.commit()

        [care] = shore.trickle.lake.maintain_lake(_AT_ONCE).sinks

    assert (care.error or "").startswith("ST209")
    assert orphan.exists()


def test_daemon_tends_a_sink_when_it_is_time(shore: Shore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(merge_files, "FEWEST", 2)
    shore.create("copies", COPY)
    shore.window("copies", "INSERT INTO t VALUES (101, 1, 1, 'x')")
    live = "SELECT count(*) FROM lake.ducklake_data_file WHERE end_snapshot IS NULL"

    shore.trickle.daemon.tend_lake()
    assert shore.tell(live) == [(2,)]
    shore.run("UPDATE pgtrickle.pgt_ducklake_sinks SET maintained_at = now() - interval '1 day'")
    shore.trickle.daemon.tend_lake()

    assert shore.tell(live) == [(1,)]
    shore.check("copies")


def test_old_snapshots_are_forgotten_and_their_files_go(shore: Shore):
    shore.create("copies", COPY)
    shore.run("INSERT INTO t VALUES (101, 1, 1, 'x')")
    for number in range(3):
        shore.window("copies", f"UPDATE t SET v = {number}")  # all rows: files end
    [(before,)] = shore.ask("SELECT count(*) FROM lake.snapshots()")
    files = len(shore.files())

    care = shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)
    again = shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)

    assert (care.expired, again.expired) == (before - 1, 0)
    assert len(again.sinks[0].replaced) > 0
    assert len(shore.files()) < files
    shore.check("copies")
    assert shore.ask("SELECT count(*) FROM lake.snapshots()") == [(1,)]
    [status] = shore.trickle.lake.ducklake_sink_status()
    shore.window("copies", "UPDATE t SET v = 9 WHERE id = 1")
    [after] = shore.trickle.lake.ducklake_sink_status()
    assert after.rows_written == status.rows_written + 1


def test_snapshots_that_duckdb_expired_may_have_changed_the_copy(shore: Shore):
    shore.create("copies", COPY)
    shore.ask("INSERT INTO copies VALUES (1, 1, 'theirs')")
    shore.ask("CREATE TABLE other (id int)")
    shore.ask("CALL ducklake_expire_snapshots('lake', older_than => now())")

    shore.window("copies", "UPDATE t SET v = 9 WHERE id = 1")


def test_snapshots_of_others_since_the_last_delivery_stay_until_they_are_seen(shore: Shore):
    shore.create("copies", COPY)
    shore.ask("INSERT INTO copies VALUES (1, 1, 'theirs')")

    shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)

    shore.window("copies", "UPDATE t SET v = 9 WHERE id = 1")
