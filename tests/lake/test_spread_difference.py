"""A large difference by many processes, after the refresh: the promises of the refresh's own.

Threads stand for the processes; ``test_spread_load`` has one test on Spark, for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgtrickle.errors import LeaseHeldError
from pgtrickle.lake.write.row_map import RowMap, create_row_map, cut_new, pair_updates
from pgtrickle.service.sinks.ducklake import delivery as lake_sink
from tests.fakes.spreading import SpreadingEngine
from tests.lake.shore import COPY, SOURCE, Shore, open_shore

_PARTS = 4
_LIMIT = 10_000  # some two hundred rows
_MORE = "INSERT INTO t SELECT i, i % 5, i, 's' || i FROM generate_series({}, {}) AS i"
_GROUPS = "SELECT id % 1000 AS g, sum(v) AS total, count(*) AS n FROM t GROUP BY 1"


@pytest.fixture
def shore(
    database: str, spreading: SpreadingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shore]:
    """Open a shore with a stream table of some pages, of which a few hundred rows are many."""
    monkeypatch.setattr(lake_sink, "largest_in_place", lambda _: _LIMIT)
    with open_shore(database, spreading, tmp_path) as shore:
        shore.run(*SOURCE, _MORE.format(101, 1000))
        yield shore


def _create(shore: Shore, spreading: SpreadingEngine, name: str, query: str) -> None:
    shore.create(name, query)
    spreading.spreads.clear()


def test_large_difference_is_written_in_parts_after_the_refresh(
    shore: Shore, spreading: SpreadingEngine
):
    _create(shore, spreading, "copy", COPY)
    before = len(shore.files())

    report = shore.window("copy", _MORE.format(1001, 4000), "DELETE FROM t WHERE id IN (1, 1000)")

    assert report.action.value == "DIFFERENTIAL"
    assert spreading.spreads == [_PARTS]
    sizes = [
        rows
        for (rows,) in shore.tell(
            "SELECT record_count FROM lake.ducklake_data_file ORDER BY data_file_id DESC LIMIT 4"
        )
    ]
    assert sum(sizes) == 3000
    assert min(sizes) > 500  # of about the same size
    assert len(shore.files()) == before + _PARTS
    assert shore.status() == ("DELIVERED", 0, None)
    assert shore.tell(
        "SELECT refresh_id, delta_row_count FROM pgtrickle.pgt_ducklake_provenance"
        " ORDER BY 1 DESC LIMIT 1"
    ) == [(report.refresh_id, 3002)]
    # Later deletes find the rows of every part.
    shore.window("copy", "DELETE FROM t WHERE id % 7 = 0")


def test_small_difference_of_a_large_table_is_part_of_the_refresh(
    shore: Shore, spreading: SpreadingEngine
):
    _create(shore, spreading, "copy", COPY)

    shore.window("copy", _MORE.format(1001, 1050))

    assert spreading.spreads == []


def test_updates_of_a_large_difference_keep_their_row_ids(shore: Shore, spreading: SpreadingEngine):
    shore.run("DELETE FROM t WHERE id % 10 = 0")
    _create(shore, spreading, "groups", _GROUPS)
    before = dict(shore.ask("SELECT g, rowid FROM groups"))
    [(snapshot,)] = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")

    shore.window("groups", _MORE.format(1001, 2000), "DELETE FROM t WHERE id % 100 = 1")

    assert spreading.spreads == [_PARTS]
    after = dict(shore.ask("SELECT g, rowid FROM groups"))
    assert {g: after[g] for g in before if g in after} == {
        g: row_id for g, row_id in before.items() if g in after
    }
    assert len(set(after.values())) == len(after) == 990
    changes = shore.ask(
        "SELECT change_type, count(*) FROM"
        f" table_changes('groups', {snapshot + 1}, {snapshot + 1}) GROUP BY 1 ORDER BY 1"
    )
    assert changes == [
        ("delete", 10),
        ("insert", 100),
        ("update_postimage", 890),
        ("update_preimage", 890),
    ]


def test_parts_of_partitions_keep_to_their_files(shore: Shore, spreading: SpreadingEngine):
    shore.trickle.create_stream_table("copy", COPY, sink="ducklake", ducklake_partition_by="k")
    spreading.spreads.clear()
    before = len(shore.files())

    shore.window("copy", _MORE.format(1001, 4000))

    assert spreading.spreads == [_PARTS]
    assert len(shore.files()) == before + 5 * _PARTS
    assert shore.ask("SELECT k, count(*) FROM copy GROUP BY k ORDER BY k") == [
        (k, 800) for k in range(5)
    ]
    shore.window("copy", "UPDATE t SET k = 1 WHERE id % 3 = 0", "DELETE FROM t WHERE id % 5 = 0")


def test_part_that_is_done_again_gives_its_rows_once_and_leaves_no_file(
    shore: Shore, spreading: SpreadingEngine
):
    _create(shore, spreading, "copy", COPY)
    before = len(shore.files())
    spreading.repeated = _PARTS - 1

    shore.window("copy", _MORE.format(1001, 4000))

    assert len(shore.files()) == before + _PARTS


def test_refreshes_after_a_difference_that_failed_add_to_it(
    shore: Shore, spreading: SpreadingEngine
):
    _create(shore, spreading, "groups", _GROUPS)
    row_ids = dict(shore.ask("SELECT g, rowid FROM groups"))
    before, files = shore.in_lake("groups"), shore.files()

    def fail() -> None:
        raise OSError("the store is full")

    spreading.meanwhile = fail
    shore.run(_MORE.format(1001, 2000))
    shore.trickle.refresh_stream_table("groups")
    status, attempts, error = shore.status()
    assert (status, attempts) == ("FAILED_RETRYABLE", 1)
    assert "the store is full" in str(error)
    assert shore.in_lake("groups") == before
    assert shore.files() == files
    # The rows that failed go, come again in other places, and some go for good.
    for statement in ("UPDATE t SET v = v + 1 WHERE id % 2 = 0", "DELETE FROM t WHERE id % 20 = 3"):
        shore.run(statement)
        shore.trickle.refresh_stream_table("groups")
    assert shore.in_lake("groups") == before

    spreading.meanwhile = None
    shore.trickle.lake.retry_sink("groups")

    assert spreading.spreads == [_PARTS, _PARTS]
    assert shore.status() == ("DELIVERED", 0, None)
    shore.check("groups")
    assert dict(shore.ask("SELECT g, rowid FROM groups")) == {
        g: row_id for g, row_id in row_ids.items() if g % 20 != 3
    }
    shore.window("groups", "DELETE FROM t WHERE id % 3 = 0")


def test_difference_is_shown_and_keeps_others_away(shore: Shore, spreading: SpreadingEngine):
    _create(shore, spreading, "copy", COPY)
    before = shore.in_lake("copy")
    seen: list[object] = []

    def look() -> None:
        seen.append(
            shore.tell(
                "SELECT status FROM pgtrickle.pgt_ducklake_sink_delivery"
                " ORDER BY delivery_id DESC LIMIT 1"
            )
        )
        seen.append(shore.tell("SELECT count(*) FROM copy"))
        seen.append(shore.in_lake("copy") == before)
        with pytest.raises(LeaseHeldError):
            shore.trickle.refresh_stream_table("copy")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            shore.run("SET lock_timeout = '50ms'", "VACUUM FULL copy")

    spreading.meanwhile = look
    shore.window("copy", _MORE.format(1001, 4000))

    assert seen == [[("WRITING",)], [(4000,)], True]


def test_files_that_this_process_cannot_find_are_written_by_itself(
    shore: Shore, spreading: SpreadingEngine
):
    _create(shore, spreading, "groups", _GROUPS)
    files = set(shore.files())
    row_ids = dict(shore.ask("SELECT g, rowid FROM groups"))

    def lose() -> None:
        next(iter(set(shore.files()) - files)).unlink()

    spreading.meanwhile = lose
    shore.window("groups", _MORE.format(1001, 2000))

    [written] = [one for one in set(shore.files()) - files if "delete" not in one.name]
    assert written.exists()
    assert dict(shore.ask("SELECT g, rowid FROM groups")) == row_ids


def test_difference_gives_way_to_a_load_when_others_change_the_lake_table(
    shore: Shore, spreading: SpreadingEngine
):
    _create(shore, spreading, "copy", COPY)
    calls: list[int] = []

    def meddle() -> None:
        calls.append(1)
        if len(calls) == 1:
            shore.ask("DELETE FROM copy WHERE k = 3")

    spreading.meanwhile = meddle
    shore.window("copy", _MORE.format(1001, 4000))

    assert spreading.spreads == [_PARTS, _PARTS]
    shore.window("copy", "DELETE FROM t WHERE id % 7 = 0")


def test_members_of_a_diamond_are_delivered_after_their_transaction(
    shore: Shore, spreading: SpreadingEngine
):
    shore.run(_MORE.format(1001, 3000))
    shore.create("low", "SELECT id, k, v FROM t WHERE id % 2 = 0")
    shore.create("high", "SELECT id, k, v FROM t WHERE id % 2 = 1")
    query = "SELECT low.k, count(*) AS n FROM low JOIN high USING (k) GROUP BY 1"
    _create(shore, spreading, "joint", query)

    shore.window("joint", "UPDATE t SET v = v + 1 WHERE id < 2000")

    assert spreading.spreads == [_PARTS, _PARTS]
    for name in ("low", "high"):
        shore.check(name)


def test_refresh_that_is_to_fail_with_its_delivery_writes_in_its_transaction(
    database: str, spreading: SpreadingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lake_sink, "largest_in_place", lambda _: _LIMIT)
    with open_shore(database, spreading, tmp_path, ducklake_sink_failure_mode="error") as shore:
        shore.run(*SOURCE)
        shore.create("copy", COPY)
        shore.window("copy", _MORE.format(101, 4000))

    assert spreading.spreads == []


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection]:
    """Connect to a fresh database."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def rows(connection: psycopg.Connection) -> RowMap:
    """Create an empty map."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS pgtrickle_state")
    rows = RowMap(1)
    create_row_map(connection, rows)
    return rows


def test_row_that_comes_between_paired_ones_leaves_no_row_id_to_two(
    connection: psycopg.Connection, rows: RowMap
):
    connection.execute(f"INSERT INTO {rows.gone} VALUES (1, 0, 5, 7), (1, 1, 6, 7)".encode())
    connection.execute(f"INSERT INTO {rows.new} VALUES ('(0,1)', 7), ('(0,3)', 7)".encode())
    pair_updates(connection, rows)
    connection.execute(f"INSERT INTO {rows.new} VALUES ('(0,2)', 7)".encode())

    pair_updates(connection, rows)

    assert connection.execute(
        f"SELECT tid::text, row_id FROM {rows.new} ORDER BY tid".encode()
    ).fetchall() == [("(0,1)", 5), ("(0,2)", 6), ("(0,3)", None)]


@pytest.mark.parametrize(("count", "parts"), [(0, 4), (1, 4), (2, 1), (1000, 3), (250_000, 5)])
def test_new_rows_are_cut_where_they_are(
    connection: psycopg.Connection, rows: RowMap, count: int, parts: int
):
    # Closer and closer together, the more the page is one of the first.
    connection.execute(
        f"INSERT INTO {rows.new}"
        f" SELECT ('(' || (i / 100) * (i / 100) || ',' || 1 + i % 100 || ')')::tid"
        f"   FROM generate_series(0, {count - 1}) AS i".encode()
    )

    places = cut_new(connection, rows, parts)

    shares = connection.execute(
        f"SELECT count(*) FROM {rows.new}"
        " GROUP BY pg_catalog.width_bucket(tid, %s::tid[]) ORDER BY 1".encode(),
        [places],
    ).fetchall()
    assert sum(share for (share,) in shares) == count
    if count >= 1000:
        assert len(places) == parts - 1
        assert shares[-1][0] < 1.2 * count / parts
