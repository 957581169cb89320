"""A large load by many processes: the same rows, types and promises as the refresh's own.

Threads stand for the processes, except where Spark is the point.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import LeaseHeldError
from pgtrickle.lake.write.parquet import DataFileWriter
from pgtrickle.model.stream_table import Action
from pgtrickle.ports import Engine
from pgtrickle.service.sinks.ducklake import delivery as lake_sink
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fakes.spreading import SpreadingEngine
from tests.fixtures.engines import Borrowed
from tests.lake.shore import COPY, SOURCE, SUMS, Shore, open_shore

_MANY = "INSERT INTO t SELECT i, i % 5, i, 's' || i FROM generate_series(101, 3000) AS i"
_PARTS = 4
_LIMIT = 8191  # less than a page, which every load has, and more than some dozen rows


@pytest.fixture
def shore(
    database: str, spreading: SpreadingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shore]:
    """Open a shore on which every load is large, with rows enough for several parts."""
    monkeypatch.setattr(lake_sink, "largest_in_place", lambda _: _LIMIT)
    with open_shore(database, spreading, tmp_path) as shore:
        shore.run(*SOURCE, _MANY)
        yield shore


def test_new_stream_table_is_loaded_in_parts_and_then_followed(
    shore: Shore, spreading: SpreadingEngine
):
    report = shore.create("copy", COPY)

    assert spreading.spreads == [_PARTS]
    assert len(shore.files()) == _PARTS
    assert shore.status() == ("DELIVERED", 0, None)
    assert report is not None
    assert shore.tell(
        "SELECT refresh_id, delta_row_count FROM pgtrickle.pgt_ducklake_provenance"
    ) == [(report.refresh_id, 3000)]
    # Deletes and updates find the rows of every part.
    shore.window("copy", "UPDATE t SET s = 'x' WHERE id % 50 = 0", "DELETE FROM t WHERE id % 7 = 0")
    assert spreading.spreads == [_PARTS]


def test_sink_of_an_old_stream_table_is_loaded_in_parts(shore: Shore, spreading: SpreadingEngine):
    shore.trickle.create_stream_table("copy", COPY)

    shore.trickle.alter_stream_table("copy", sink="ducklake")

    assert spreading.spreads == [_PARTS]
    shore.check("copy")


def test_parts_of_partitions_keep_to_their_files(shore: Shore):
    shore.trickle.create_stream_table("copy", COPY, sink="ducklake", ducklake_partition_by="k")

    shore.check("copy")
    assert len(shore.files()) == 5 * _PARTS
    shore.window("copy", "DELETE FROM t WHERE id % 3 = 0", "UPDATE t SET k = 1 WHERE id % 10 = 1")


def test_part_that_is_done_again_gives_its_rows_once_and_leaves_no_file(
    shore: Shore, spreading: SpreadingEngine
):
    spreading.repeated = _PARTS - 1

    shore.create("copy", COPY)

    assert len(shore.files()) == _PARTS
    shore.window("copy", "DELETE FROM t WHERE id % 3 = 0")


def test_load_that_fails_leaves_no_file_and_the_refresh_stands(
    shore: Shore, spreading: SpreadingEngine
):
    def fail() -> None:
        raise OSError("the store is full")

    spreading.meanwhile = fail
    shore.trickle.create_stream_table("copy", COPY, sink="ducklake")

    status, attempts, error = shore.status()
    assert (status, attempts) == ("FAILED_RETRYABLE", 1)
    assert "the store is full" in str(error)
    assert shore.files() == []
    assert shore.tell("SELECT count(*) FROM copy") == [(3000,)]
    spreading.meanwhile = None
    shore.trickle.lake.retry_sink("copy")
    shore.window("copy", "DELETE FROM t WHERE id % 3 = 0")


def test_part_that_fails_takes_its_own_files_away(shore: Shore, monkeypatch: pytest.MonkeyPatch):
    written = DataFileWriter.write
    seen: list[int] = []

    def fail_at_third(self: DataFileWriter, arrays: list[object]) -> None:
        seen.append(1)
        if len(seen) == 3:
            raise OSError("no room")
        written(self, arrays)

    with monkeypatch.context() as patched:
        patched.setattr(DataFileWriter, "write", fail_at_third)
        shore.trickle.create_stream_table("copy", COPY, sink="ducklake")
    assert shore.status()[0] == "FAILED_RETRYABLE"
    assert shore.files() == []

    shore.trickle.lake.retry_sink("copy")
    shore.check("copy")


def test_load_is_shown_and_keeps_others_away(shore: Shore, spreading: SpreadingEngine):
    seen: list[object] = []

    def look() -> None:
        seen.append(shore.tell("SELECT status FROM pgtrickle.pgt_ducklake_sink_delivery"))
        seen.append(shore.tell("SELECT count(*) FROM copy"))
        with pytest.raises(LeaseHeldError):
            shore.trickle.refresh_stream_table("copy")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            shore.run("SET lock_timeout = '50ms'", "VACUUM FULL copy")

    spreading.meanwhile = look
    shore.create("copy", COPY)

    assert seen == [[("WRITING",)], [(3000,)]]


def test_files_that_this_process_cannot_find_are_written_by_itself(
    shore: Shore, spreading: SpreadingEngine
):
    def lose() -> None:
        shore.files()[0].unlink()

    spreading.meanwhile = lose
    shore.create("copy", COPY)

    assert len(shore.files()) == 1
    shore.window("copy", "DELETE FROM t WHERE id % 3 = 0")


def test_rewritten_stream_table_is_loaded_after_the_refresh(
    shore: Shore, spreading: SpreadingEngine
):
    shore.create("copy", COPY)

    shore.window("copy", "VACUUM FULL copy", "DELETE FROM t WHERE id % 3 = 0")

    assert len(spreading.spreads) == 2
    shore.window("copy", "DELETE FROM t WHERE id % 5 = 0")
    assert len(spreading.spreads) == 2


def test_members_of_a_diamond_are_loaded_after_their_transaction(
    shore: Shore, spreading: SpreadingEngine
):
    shore.create("low", "SELECT id, k, v FROM t WHERE id < 1500")
    shore.create("high", "SELECT id, k, v FROM t WHERE id >= 1500")
    query = "SELECT low.k, sum(low.v) AS v, count(*) AS n FROM low JOIN high USING (k) GROUP BY 1"
    shore.create("joint", query)
    loads = len(spreading.spreads)
    shore.run("VACUUM FULL low", "VACUUM FULL high")

    shore.window("joint", "UPDATE t SET v = v + 1 WHERE id % 100 = 0")

    assert len(spreading.spreads) == loads + 2
    for name in ("low", "high"):
        shore.check(name)


def test_replaced_query_is_loaded_after_the_replacement(shore: Shore, spreading: SpreadingEngine):
    shore.create("sums", SUMS)

    shore.trickle.alter_stream_table("sums", query="SELECT k, v FROM t")

    assert spreading.spreads == [1, _PARTS]
    shore.check("sums")


def test_refresh_that_is_to_fail_with_its_delivery_loads_in_its_transaction(
    database: str, spreading: SpreadingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lake_sink, "largest_in_place", lambda _: _LIMIT)
    with open_shore(database, spreading, tmp_path, ducklake_sink_failure_mode="error") as shore:
        shore.run(*SOURCE, _MANY)
        shore.create("copy", COPY)

    assert spreading.spreads == []


_TYPES = """
    CREATE TABLE kinds (id int PRIMARY KEY, flag boolean, small smallint, big bigint, r real,
        f float8, n numeric(12,2), free numeric, odd numeric(5,1), d date, h time, ts timestamp,
        tz timestamptz, s text, c char(4), u uuid, b bytea, j json, jb jsonb, i interval,
        spans tstzrange, a int[], texts text[])
"""
_ROWS = """
    INSERT INTO kinds
    SELECT i, i % 2 = 0, (i % 7)::smallint, i * 10000000000,
           CASE i % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' ELSE (i / 3.0)::real END,
           CASE i % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' ELSE (i / 7.0)::float8 END,
           i * -1.25, i + 0.125, CASE WHEN i = 77 THEN 'NaN' ELSE (i % 900)::numeric END,
           CASE WHEN i % 50 = 0 THEN 'infinity' ELSE DATE '0001-01-01' + i * 11 END,
           TIME '00:00:00.000001' + i * INTERVAL '1 s',
           CASE WHEN i % 50 = 0 THEN '-infinity'
                ELSE TIMESTAMP '1600-01-01' + i * INTERVAL '1 day 0.000001 s' END,
           TIMESTAMPTZ '1999-12-31 23:59:59.5+02' + i * INTERVAL '1 h',
           CASE i % 4 WHEN 0 THEN '' WHEN 1 THEN E'a"b,c\nñ🦆' ELSE 's' || i END, 'ab',
           md5(i::text)::uuid, decode(md5(i::text), 'hex'), '{"b":  1}', '{"a": 1.50}',
           i * INTERVAL '1 day 3.5 s', tstzrange('2026-01-01 00:00+02', '2026-02-01 00:00+02'),
           CASE i % 3 WHEN 0 THEN '{}' WHEN 1 THEN ARRAY[i, NULL] END, ARRAY['a,b', NULL, '']
      FROM generate_series(1, 4000) AS i
"""


_SAME = """
    SELECT count(*) FROM (
        (SELECT COLUMNS(*)::VARCHAR FROM {one} EXCEPT ALL SELECT COLUMNS(*)::VARCHAR FROM {other})
        UNION ALL
        (SELECT COLUMNS(*)::VARCHAR FROM {other} EXCEPT ALL SELECT COLUMNS(*)::VARCHAR FROM {one}))
"""


def test_executors_of_spark_write_every_type_as_this_process_does(
    database: str, spark_engine: Engine, duckdb_engine: DuckDbEngine, tmp_path: Path
):
    settings = load_settings({}, dsn=database, ducklake_catalog_schema="lake")
    with open_shore(database, spark_engine, tmp_path, large_read_bytes=50_000) as shore:
        shore.run(_TYPES, _ROWS, "INSERT INTO kinds (id) VALUES (0)")
        with pgtrickle.connect(
            database, engine=Borrowed(duckdb_engine), settings=settings
        ) as trickle:
            trickle.create_stream_table("plain", "SELECT * FROM kinds", sink="ducklake")
        before = len(shore.files())

        shore.trickle.create_stream_table(
            "spread", "SELECT * FROM kinds", refresh_mode="DIFFERENTIAL", sink="ducklake"
        )

        assert len(shore.files()) == before + _PARTS
        assert shore.ask("DESCRIBE spread") == shore.ask("DESCRIBE plain")
        assert shore.ask(_SAME.format(one="spread", other="plain")) == [(0,)]
        assert shore.ask("SELECT count(*) FROM spread") == [(4001,)]
        assert _stats(shore, "spread") == _stats(shore, "plain")

        # A large difference comes by the same hands.
        shore.run(_ROWS.replace("(1, 4000)", "(4001, 8000)"))
        with pgtrickle.connect(
            database, engine=Borrowed(duckdb_engine), settings=settings
        ) as trickle:
            trickle.refresh_stream_table("plain")
        before = len(shore.files())
        report = shore.trickle.refresh_stream_table("spread")

        assert report.action is Action.DIFFERENTIAL
        assert len(shore.files()) == before + _PARTS
        assert shore.ask(_SAME.format(one="spread", other="plain")) == [(0,)]
        assert shore.ask("SELECT count(*) FROM spread") == [(8001,)]
        assert _stats(shore, "spread") == _stats(shore, "plain")


def _stats(shore: Shore, table: str) -> list[tuple[object, ...]]:
    """Return what the catalog says of the columns of a table as a whole."""
    return shore.tell(
        "SELECT s.column_id, s.contains_null, s.contains_nan, s.min_value, s.max_value"
        "  FROM lake.ducklake_table_column_stats AS s JOIN lake.ducklake_table USING (table_id)"
        f" WHERE table_name = '{table}' ORDER BY 1"
    )
