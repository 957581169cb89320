"""Copies that are partitioned: each file holds rows of one partition, and DuckDB finds them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from pgtrickle.errors import LakeSinkError
from pgtrickle.lake.format.partition import parse_partition_by
from tests.lake.shore import COPY, SUMS, Shore

PLACED = (
    "CREATE TABLE o (id int PRIMARY KEY, region text, placed timestamp, day date, ok boolean)",
    "INSERT INTO o SELECT i, CASE i % 4 WHEN 0 THEN NULL ELSE 'Region ' || i % 4 END,"
    " timestamp '2025-12-30' + i * interval '7 h', date '2026-01-01' + i % 3, i % 2 = 0"
    " FROM generate_series(1, 60) AS i",
    "INSERT INTO o VALUES (100, '', 'infinity', '-infinity', NULL),"
    " (101, 'x/y=z', '0044-03-15 01:00 BC', '0044-03-15 BC', true)",
)
ORDERS = "SELECT id, region, placed, day, ok FROM o"


def create(shore: Shore, name: str, query: str, keys: str) -> None:
    shore.trickle.create_stream_table(
        name, query, refresh_mode="DIFFERENTIAL", sink="ducklake", ducklake_partition_by=keys
    )


def partitions(shore: Shore, name: str) -> list[tuple[int, list[str | None]]]:
    """Return the partition values of each live file of a table."""
    return [
        (file_id, values)
        for file_id, values in shore.tell(
            "SELECT f.data_file_id, array_agg(v.partition_value::text ORDER BY partition_key_index)"
            "  FROM lake.ducklake_data_file AS f JOIN lake.ducklake_table AS t USING (table_id)"
            "  JOIN lake.ducklake_file_partition_value AS v USING (data_file_id)"
            f" WHERE t.table_name = '{name}' AND t.end_snapshot IS NULL"
            "   AND f.end_snapshot IS NULL AND f.partition_id IS NOT NULL GROUP BY 1 ORDER BY 1"
        )
    ]


def test_the_values_of_a_file_are_those_that_duckdb_itself_writes(shore: Shore) -> None:
    shore.run(*PLACED)
    keys = "region, year(placed), month(placed), day(placed), hour(placed), day, ok, id"
    create(shore, "ours", ORDERS, keys)
    shore.ask("CALL lake.set_option('data_inlining_row_limit', 0)")
    shore.ask("CREATE TABLE theirs AS SELECT * FROM ours LIMIT 0")
    shore.ask(f"ALTER TABLE theirs SET PARTITIONED BY ({keys})")
    shore.ask("INSERT INTO theirs SELECT * FROM ours")
    ours = sorted(repr(values) for _, values in partitions(shore, "ours"))
    assert ours == sorted(repr(values) for _, values in partitions(shore, "theirs"))
    assert len(ours) == 62
    assert shore.ask("FROM ours EXCEPT ALL FROM theirs") == []


def test_a_refresh_writes_each_partition_into_a_file_of_its_own(shore: Shore) -> None:
    create(shore, "copied", COPY, "k")
    shore.check("copied")
    assert [values for _, values in partitions(shore, "copied")] == [[str(k)] for k in range(5)]
    shore.window("copied", "UPDATE t SET k = 7 WHERE id <= 2", "INSERT INTO t VALUES (500, NULL)")
    shore.window("copied", "DELETE FROM t WHERE k = 3", "UPDATE t SET v = 0 WHERE k = 1")
    found = {values[0] for _, values in partitions(shore, "copied")}
    assert found == {"0", "1", "2", "4", "7", None}
    for k in (*range(8), None):
        where = f"k IS NOT DISTINCT FROM {'NULL' if k is None else k}"
        assert sorted(shore.ask(f"SELECT s FROM copied WHERE {where}"), key=repr) == sorted(
            shore.tell(f"SELECT s FROM copied WHERE {where}"), key=repr
        )


def test_duckdb_opens_only_the_files_of_the_partition(shore: Shore) -> None:
    create(shore, "copied", COPY, "k")
    paths = shore.ask("SELECT data_file FROM ducklake_list_files('lake', 'copied') ORDER BY 1")
    for (path,) in paths:
        found = shore.ask(f"SELECT DISTINCT k FROM read_parquet('{path}')")
        assert len(found) == 1
    [(_, plan)] = shore.ask("EXPLAIN ANALYZE SELECT * FROM copied WHERE k = 2")
    assert "Total Files Read: 1" in plan


def test_updates_keep_their_row_ids_and_may_change_their_partition(shore: Shore) -> None:
    create(shore, "sums", SUMS, "k, last")
    before = dict(shore.ask("SELECT k, rowid FROM sums"))
    shore.window("sums", "INSERT INTO t VALUES (1000, 2, 1, 'x')")
    assert dict(shore.ask("SELECT k, rowid FROM sums")) == before
    assert ["2", "1000"] in [values for _, values in partitions(shore, "sums")]


def test_small_files_are_merged_within_their_partition(shore: Shore) -> None:
    create(shore, "copied", COPY, "k")
    for number in range(9):
        shore.window("copied", f"INSERT INTO t VALUES ({1000 + number}, {number % 2}, 1, 'x')")
    history = [shore.in_lake("copied", version) for version in range(1, 11)]
    # Five for k = 0 and four for k = 1, with the one of the first load; eight are worth merging.
    for number in range(9, 15):
        shore.window("copied", f"INSERT INTO t VALUES ({1000 + number}, 0, 1, 'x')")
    [care] = shore.trickle.lake.maintain_lake(timedelta(days=1), None).sinks
    assert care.error is None
    assert care.merged == 12
    shore.check("copied")
    assert [shore.in_lake("copied", version) for version in range(1, 11)] == history
    found = [values[0] for _, values in partitions(shore, "copied")]
    assert Counter(found) == {"0": 1, "1": 5, "2": 1, "3": 1, "4": 1}
    shore.window("copied", "DELETE FROM t WHERE id IN (1000, 1001, 1012)")
    shore.window("copied", "UPDATE t SET k = 0 WHERE k = 4")


def test_a_sink_that_is_turned_on_again_may_have_other_keys(shore: Shore) -> None:
    create(shore, "copied", COPY, "k")
    for keys in ("s", None, "k"):
        shore.trickle.alter_stream_table("copied", sink="none")
        shore.trickle.alter_stream_table("copied", sink="ducklake", ducklake_partition_by=keys)
        shore.check("copied")
        shore.window("copied", "UPDATE t SET v = v + 1 WHERE id = 3")
        values = {value for _, [value] in partitions(shore, "copied")}
        assert ("s3" in values, "3" in values) == (keys == "s", keys == "k")


def test_keys_that_duckdb_changed_are_put_right(shore: Shore) -> None:
    create(shore, "copied", COPY, "k")
    shore.ask("ALTER TABLE copied RESET PARTITIONED BY")
    shore.window("copied", "UPDATE t SET v = v + 1 WHERE id = 3")
    assert {value for _, [value] in partitions(shore, "copied")} == {"0", "1", "2", "3", "4"}
    shore.ask("INSERT INTO copied SELECT 9, 9, 'theirs' FROM range(50)")
    shore.window("copied", "UPDATE t SET v = v + 1 WHERE id = 4")


REFUSED = {
    "nobody": 'no column "nobody"',
    "v": "cannot be partitioned by identity",
    "year(k)": "cannot be partitioned by year",
    "": "names no partition keys",
    "k,": "names no partition keys",
    "k s": "names no partition keys",
    "year(k": "names no partition keys",
    "bucket(4, k)": "names no partition keys",
}


def test_keys_that_cannot_be_are_refused_before_anything_is_made(shore: Shore) -> None:
    for keys, message in REFUSED.items():
        with pytest.raises(LakeSinkError, match=message):
            create(shore, "copied", COPY, keys)
        assert shore.tell("SELECT to_regclass('copied')") == [(None,)]


def test_names_of_keys_may_hold_anything() -> None:
    [one, two] = parse_partition_by(' "a, b"")" , Month ( "Ä" ) ')
    assert (one.column, one.transform) == ('a, b")', "identity")
    assert (two.column, two.transform) == ("Ä", "month")
