"""Small files become one, and no snapshot looks any different for it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from pgtrickle.lake.upkeep import compact, merge_files
from pgtrickle.lake.write import delete_rows
from pgtrickle.model.lake.sink import SinkCare
from tests.lake.shore import COPY, SUMS, Shore

_AT_ONCE = timedelta(0)
_LATER = timedelta(days=1)


def _live_files(shore: Shore) -> int:
    [(count,)] = shore.tell(
        "SELECT count(*) FROM lake.ducklake_data_file WHERE end_snapshot IS NULL"
    )
    return int(count)


def _work(shore: Shore, name: str, rounds: int = 10) -> None:
    """Make small files, and rows that live in them for some rounds."""
    for number in range(rounds):
        shore.window(
            name,
            f"UPDATE t SET v = v + 1 WHERE id % 50 = {number}",
            f"DELETE FROM t WHERE id = {number + 60}",
            f"INSERT INTO t SELECT max(id) + 1, {number % 5}, 1, 'n' FROM t",
        )


def _history(shore: Shore, name: str, first: int = 1) -> list[Counter[tuple[Any, ...]]]:
    """Return what each snapshot holds, row ids included, and what changed since the first."""
    [(last,)] = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")
    told = [
        Counter(shore.ask(f"SELECT rowid, * FROM {name} AT (VERSION => {version})"))
        for version in range(first, last + 1)
    ]
    changes = shore.ask(f"SELECT * FROM table_changes('{name}', {first + 1}, {last})")
    return [*told, Counter(changes)]


def _maintain(shore: Shore, older_than: timedelta = _LATER) -> SinkCare:
    [care] = shore.trickle.lake.maintain_lake(older_than).sinks
    assert care.error is None
    return care


@pytest.mark.parametrize(("name", "query"), [("sums", SUMS), ("copies", COPY)])
@pytest.mark.parametrize("inlined", [0, 1000])
def test_merged_files_change_nothing_in_any_snapshot(
    shore: Shore, monkeypatch: pytest.MonkeyPatch, name: str, query: str, inlined: int
):
    monkeypatch.setattr(delete_rows, "INLINE_LIMIT", inlined)
    monkeypatch.setattr(merge_files, "FEWEST", 2)
    shore.create(name, query)
    _work(shore, name)
    before = _history(shore, name)
    files = _live_files(shore)

    care = _maintain(shore, _AT_ONCE)

    assert 1 < care.merged <= files
    assert _live_files(shore) == files - care.merged + 1
    assert _history(shore, name)[: len(before) - 1] == before[:-1]
    assert _history(shore, name)[-1] == before[-1]
    shore.check(name)


def test_deliveries_go_on_with_the_difference_after_a_merge(shore: Shore):
    shore.create("copies", COPY)
    _work(shore, "copies")
    _maintain(shore)

    _work(shore, "copies", 9)
    [status] = shore.trickle.lake.ducklake_sink_status()
    _maintain(shore, _AT_ONCE)
    shore.window("copies", "UPDATE t SET v = 0 WHERE id IN (1, 101, 105)")

    [after] = shore.trickle.lake.ducklake_sink_status()
    assert status.deliveries == 20
    assert (after.rows_written - status.rows_written) == 3
    assert _live_files(shore) == 2


def test_rows_that_the_lake_lacks_are_found_after_a_merge(shore: Shore):
    shore.create("copies", COPY)
    _work(shore, "copies")
    [directory] = {path.parent for path in shore.files()}
    directory.rename(directory.with_name("aside"))
    directory.write_text("in the way")
    shore.run("DELETE FROM t WHERE id IN (3, 101, 102)", "INSERT INTO t VALUES (500, 1, 1, 'x')")
    shore.trickle.refresh_stream_table("copies")
    assert shore.status()[0] == "FAILED_RETRYABLE"
    directory.unlink()
    directory.with_name("aside").rename(directory)

    [before] = shore.trickle.lake.ducklake_sink_status()
    assert _maintain(shore).merged > 1
    shore.trickle.lake.retry_sink("copies")

    shore.check("copies")
    [after] = shore.trickle.lake.ducklake_sink_status()
    assert after.rows_written == before.rows_written + 1
    assert after.rows_deleted == before.rows_deleted + 3


def test_few_files_stay_as_they_are_and_no_snapshot_is_made(shore: Shore):
    shore.create("sums", SUMS)
    _work(shore, "sums", 2)
    [before] = shore.ask("SELECT count(*) FROM lake.snapshots()")

    care = _maintain(shore)

    assert (care.merged, care.flushed) == (0, 0)
    assert shore.ask("SELECT count(*) FROM lake.snapshots()") == [before]


def test_many_deletes_in_the_catalog_go_into_files(shore: Shore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compact, "INLINE_LIMIT", 10)
    monkeypatch.setattr(merge_files, "FEWEST", 100)
    shore.create("copies", COPY)
    _work(shore, "copies")
    before = _history(shore, "copies")
    [(inlined,)] = shore.tell("SELECT count(*) FROM lake.ducklake_inlined_delete_1")
    assert inlined > 10

    care = _maintain(shore)

    assert care.flushed == inlined
    assert shore.tell("SELECT * FROM lake.ducklake_inlined_delete_1") == []
    assert _history(shore, "copies")[: len(before) - 1] == before[:-1]
    assert _history(shore, "copies")[-1] == before[-1]
    _work(shore, "copies", 3)


def test_copy_that_others_wrote_to_is_not_compacted(shore: Shore):
    shore.create("copies", COPY)
    _work(shore, "copies")
    shore.ask("INSERT INTO copies VALUES (1, 1, 'theirs')")

    assert _maintain(shore).merged == 0

    shore.window("copies", "UPDATE t SET v = 0 WHERE id = 1")


def test_places_that_were_used_again_are_followed_after_a_merge(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(merge_files, "FEWEST", 2)
    shore.create("copies", COPY)
    for number in range(10):
        shore.window("copies", f"UPDATE t SET v = {number} WHERE id <= 10", "VACUUM copies")

    assert _maintain(shore).merged == 2

    for number in range(10):
        shore.window("copies", f"UPDATE t SET v = -{number} WHERE id <= 10", "VACUUM copies")
    assert shore.trickle.lake.ducklake_sink_status()[0].rows_written == 100 + 20 * 10


def test_rows_that_no_snapshot_shows_are_left_out_of_merged_files(shore: Shore):
    shore.create("copies", COPY)
    _work(shore, "copies")
    shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)
    _work(shore, "copies", 9)
    shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)
    shore.window("copies", "DELETE FROM t WHERE id % 2 = 0")
    _work(shore, "copies", 8)
    before = _history(shore, "copies", first=_oldest(shore))

    care = _maintain(shore, _AT_ONCE)

    assert care.merged > 8
    assert _history(shore, "copies", first=_oldest(shore))[: len(before) - 1] == before[:-1]
    assert _history(shore, "copies", first=_oldest(shore))[-1] == before[-1]
    [(live, left)] = shore.tell(
        "SELECT (SELECT count(*) FROM copies), (SELECT sum(record_count) FROM"
        " lake.ducklake_data_file WHERE end_snapshot IS NULL)"
    )
    [status] = shore.trickle.lake.ducklake_sink_status()
    assert live < left < status.rows_written
    _work(shore, "copies", 4)


def test_files_of_which_nothing_is_left_give_no_file(shore: Shore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(merge_files, "FEWEST", 1)
    shore.create("copies", COPY)
    _work(shore, "copies", 2)
    shore.window("copies", "DELETE FROM t WHERE id < 50", "DELETE FROM t")
    shore.ask("CREATE TABLE other (id int)")
    shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)

    for _ in range(2):
        shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)

    assert (_live_files(shore), shore.files()) == (0, [])
    shore.check("copies")
    shore.window("copies", "INSERT INTO t VALUES (1, 1, 1, 'a')")
    shore.window("copies", "DELETE FROM t")


def _oldest(shore: Shore) -> int:
    [(oldest,)] = shore.ask("SELECT min(snapshot_id) FROM lake.snapshots()")
    return int(oldest)
