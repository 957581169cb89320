"""Spark reads lake tables and answers as DuckDB does, row by row and value by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgtrickle import register_ducklake
from pgtrickle.lake.reader.files import read_file
from pgtrickle.lake.reader.open import LakeRead, describe, plan
from pgtrickle.lake.reader.prune import Condition
from pgtrickle.lake.reader.scan import Scan
from pgtrickle.spark.sessions.pair import SparkSessions
from tests.lake.shore import SUMS, Shore
from tests.lake.workshop import Workshop

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import DataFrame, SparkSession

KINDS = """
    CREATE TABLE kinds (id INT, b BOOLEAN, t TINYINT, u UTINYINT, w UBIGINT, f FLOAT, g DOUBLE,
        d DECIMAL(38,7), s VARCHAR, x BLOB, j JSON, i UUID, day DATE, ts TIMESTAMP, tz TIMESTAMPTZ)
"""
VALUES = (
    "(1, true, -3, 250, 18446744073709551615, 'nan', 'inf', 1234567890123456789.1234567, 'é''x',"
    " '\\xAA\\x00'::BLOB, '{\"a\": 1}', '56367b76-0ca4-44e8-a4d6-94574fdaa5dc', '0001-01-01',"
    " '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05+02')",
    "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(3, false, 0, 0, 0, -0.0, 'nan', -0.0000001, '', ''::BLOB, 'null',"
    " '00000000-0000-0000-0000-000000000000', '9999-12-31', '1969-12-31 23:59:59',"
    " '1969-01-01 00:00:00+00')",
)
Lake = Callable[..., "DataFrame"]


@pytest.fixture
def reading_spark(spark_sessions: SparkSessions) -> SparkSession:
    """Return the session of now: another test may have ended the one before."""
    session = spark_sessions.large()
    register_ducklake(session)  # again and again: that is allowed
    return session


@pytest.fixture
def lake(workshop: Workshop, reading_spark: SparkSession) -> Lake:
    """Return a function that opens a table of the workshop in Spark."""

    def read(table: str, **options: object) -> DataFrame:
        reader = reading_spark.read.format("ducklake").option("dsn", workshop.connection.info.dsn)
        reader = reader.option("catalog_schema", "lake").option("table", table)
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    return read


def in_spark(frame: DataFrame) -> Counter[str]:
    """Return the rows that Spark sees; as text, since NaN is no equal of itself."""
    return Counter(repr(row) for row in frame.toArrow().to_pylist())


def in_duckdb(workshop: Workshop, query: str) -> Counter[str]:
    return Counter(repr(row) for row in workshop.client.execute(query).to_arrow_table().to_pylist())


def at_version(workshop: Workshop, table: str, version: int) -> Counter[str]:
    """Return the rows that a task of Spark would yield for a snapshot; a job takes a second."""
    scan = plan_of(workshop, table, version=str(version))
    batches = [
        batch for file in scan.files for batch in read_file(file, scan.columns, scan.snapshot_id)
    ]
    return Counter(repr(row) for one in (*batches, *scan.inlined) for row in one.to_pylist())


def plan_of(workshop: Workshop, table: str, *conditions: Condition, **options: str) -> Scan:
    read = LakeRead.from_options(
        {"dsn": workshop.connection.info.dsn, "catalog_schema": "lake", "table": table, **options}
    )
    return plan(read, *describe(read), conditions)


@pytest.mark.parametrize("inlined", [True, False], ids=["in the catalog", "in files"])
def test_every_type_is_read_exactly(workshop: Workshop, lake: Lake, *, inlined: bool) -> None:
    limit = 10 if inlined else 0
    workshop.rows(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
    workshop.rows(KINDS)
    workshop.rows(f"INSERT INTO kinds VALUES {', '.join(VALUES)}")
    scan = plan_of(workshop, "kinds")
    assert (bool(scan.inlined), bool(scan.files)) == (inlined, not inlined)
    asked = "SELECT * REPLACE (w::DECIMAL(20,0) AS w, i::VARCHAR AS i) FROM kinds"
    assert in_spark(lake("kinds")) == in_duckdb(workshop, asked)


def test_nested_values_are_read_by_the_ids_of_their_parts(workshop: Workshop, lake: Lake) -> None:
    workshop.rows("CALL lake.set_option('data_inlining_row_limit', 0)")
    workshop.rows(
        "CREATE TABLE n (id INT, l INT[], ll VARCHAR[][], s STRUCT(a INT, b VARCHAR),"
        " m MAP(VARCHAR, INT), ls STRUCT(k INT, v DECIMAL(9,3)[])[])"
    )
    workshop.rows(
        "INSERT INTO n VALUES (1, [1, NULL, 3], [['a', NULL], [], NULL], {'a': 1, 'b': 'x, y'},"
        " MAP {'k': 1, 'l': NULL}, [{'k': 1, 'v': [1.5, NULL]}, NULL]),"
        " (2, NULL, NULL, NULL, NULL, NULL), (3, [], [], {'a': NULL, 'b': NULL}, MAP {}, [])"
    )
    workshop.rows("INSERT INTO n SELECT i, [i], NULL, {'a': i}, NULL, NULL FROM range(40000) r(i)")
    workshop.rows("DELETE FROM n WHERE id % 3 = 1")
    assert in_spark(lake("n")) == in_duckdb(workshop, "SELECT * FROM n")
    workshop.rows("ALTER TABLE n ADD COLUMN s.c INT")
    workshop.rows("ALTER TABLE n DROP COLUMN s.a")
    workshop.rows("ALTER TABLE n RENAME s.b TO bb")
    assert in_spark(lake("n")) == in_duckdb(workshop, "SELECT * FROM n")


def test_a_table_of_another_shape_reads_old_files_by_their_ids(
    workshop: Workshop, lake: Lake
) -> None:
    for limit in (0, 10):
        workshop.rows(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
        name = f"shaped_{limit}"
        workshop.rows(f"CREATE TABLE {name} (a INT, b VARCHAR, c FLOAT)")
        workshop.rows(f"INSERT INTO {name} VALUES (1, 'x', 1.1), (NULL, NULL, NULL)")
        workshop.rows(f"ALTER TABLE {name} RENAME a TO z")
        workshop.rows(f"ALTER TABLE {name} DROP COLUMN b")
        workshop.rows(f"ALTER TABLE {name} ADD COLUMN a VARCHAR DEFAULT 'it''s'")
        workshop.rows(f"ALTER TABLE {name} ADD COLUMN b DATE DEFAULT '2026-02-03'")
        workshop.rows(f"ALTER TABLE {name} ALTER z SET DATA TYPE BIGINT")
        workshop.rows(f"ALTER TABLE {name} ALTER c SET DATA TYPE DOUBLE")
        workshop.rows(f"INSERT INTO {name} VALUES (5000000000, 0.1, NULL, NULL)")
        assert in_spark(lake(name)) == in_duckdb(workshop, f"SELECT * FROM {name}")


def test_deletes_and_updates_are_honoured_in_every_snapshot(workshop: Workshop, lake: Lake) -> None:
    workshop.rows("CREATE TABLE d (id INT, v VARCHAR)")
    workshop.rows("INSERT INTO d SELECT i, 'v' || i FROM range(70000) r(i)")
    workshop.rows("INSERT INTO d VALUES (-1, 'in the catalog'), (-2, 'too')")
    workshop.rows("DELETE FROM d WHERE id IN (3, 69999)")  # in the catalog
    workshop.rows("DELETE FROM d WHERE id % 7 = 1")  # a file
    workshop.rows("DELETE FROM d WHERE id % 11 = 2")  # merged with the one before
    workshop.rows("UPDATE d SET v = 'changed' WHERE id IN (5, -1)")
    workshop.rows("CALL ducklake_flush_inlined_data('lake')")
    workshop.rows("DELETE FROM d WHERE id < 100")
    [(head,)] = workshop.rows("SELECT max(snapshot_id) FROM lake.snapshots()")
    for version in range(1, head + 1):
        asked = f"SELECT * FROM d AT (VERSION => {version})"
        assert at_version(workshop, "d", version) == in_duckdb(workshop, asked), version
    for version in (4, head):
        asked = f"SELECT * FROM d AT (VERSION => {version})"
        assert in_spark(lake("d", version=version)) == in_duckdb(workshop, asked), version


def test_files_that_were_merged_show_each_snapshot_as_before(workshop: Workshop) -> None:
    workshop.rows("CALL lake.set_option('data_inlining_row_limit', 0)")
    workshop.rows("CREATE TABLE m (id INT)")
    for number in range(4):
        workshop.rows(f"INSERT INTO m SELECT {number} * 100 + i FROM range(20) r(i)")
    workshop.rows("CALL ducklake_merge_adjacent_files('lake')")
    for version in range(1, 6):
        asked = f"SELECT * FROM m AT (VERSION => {version})"
        assert at_version(workshop, "m", version) == in_duckdb(workshop, asked), version
    assert len(plan_of(workshop, "m").files) == 1


def test_rows_in_the_catalog_are_found_although_a_view_counted_the_shapes_on(
    workshop: Workshop,
) -> None:
    workshop.rows("CREATE TABLE t (id INT)")
    workshop.rows("INSERT INTO t VALUES (1)")
    workshop.rows("CREATE VIEW shown AS SELECT 1 AS one")
    workshop.rows("ALTER TABLE t ADD COLUMN v INT")
    workshop.rows("CREATE VIEW more AS SELECT 2 AS two")
    workshop.rows("INSERT INTO t VALUES (2, 2)")
    [(head,)] = workshop.rows("SELECT max(snapshot_id) FROM lake.snapshots()")
    for version in range(1, head + 1):
        asked = f"SELECT * FROM t AT (VERSION => {version})"
        assert at_version(workshop, "t", version) == in_duckdb(workshop, asked), version
    assert at_version(workshop, "t", head).total() == 2


def test_a_moment_names_the_newest_snapshot_until_then(workshop: Workshop, lake: Lake) -> None:
    workshop.rows("CREATE TABLE t (id INT)")
    for number in range(3):
        workshop.rows(f"INSERT INTO t VALUES ({number})")
    times = workshop.rows("SELECT snapshot_id, snapshot_time FROM lake.snapshots() ORDER BY 1")
    for version, moment in times[1:3]:
        rows = in_duckdb(workshop, f"SELECT * FROM t AT (VERSION => {version})")
        assert in_spark(lake("t", timestamp=moment.isoformat())) == rows
    before: datetime = times[0][1] - timedelta(hours=1)
    with pytest.raises(Exception, match="ST704: the lake has no snapshot"):
        lake("t", timestamp=before.isoformat())


def test_a_frame_stays_with_its_snapshot(workshop: Workshop, lake: Lake) -> None:
    workshop.rows("CREATE TABLE t (id INT)")
    workshop.rows("INSERT INTO t VALUES (1)")
    frame, late = lake("t"), lake("t")
    workshop.rows("ALTER TABLE t RENAME id TO other")
    workshop.rows("INSERT INTO t VALUES (2)")
    assert in_spark(frame) == Counter(["{'id': 1}"])
    assert in_spark(lake("t")) == Counter(["{'other': 1}", "{'other': 2}"])
    workshop.rows("CALL ducklake_expire_snapshots('lake', versions => [2])")
    with pytest.raises(Exception, match="ST704: the lake has no snapshot 2"):
        late.collect()


def test_partitions_and_mapped_files_are_read_too(
    workshop: Workshop, lake: Lake, tmp_path: Path
) -> None:
    workshop.rows("CREATE TABLE p (id INT, region VARCHAR, placed TIMESTAMP)")
    workshop.rows("ALTER TABLE p SET PARTITIONED BY (region, year(placed))")
    workshop.rows(
        "INSERT INTO p SELECT i, CASE i % 4 WHEN 0 THEN NULL ELSE 'r% ' || i % 4 END,"
        " TIMESTAMP '2025-12-01' + INTERVAL (i) DAY FROM range(100) r(i)"
    )
    # A blank and a percent sign in the path must not bring deleted rows back.
    workshop.rows("DELETE FROM p WHERE id % 3 = 0")
    assert in_spark(lake("p")) == in_duckdb(workshop, "SELECT * FROM p")
    workshop.rows("CREATE TABLE q (id INT, tags VARCHAR[], s STRUCT(a INT))")
    file = tmp_path / "foreign 100%.parquet"
    workshop.rows(
        "COPY (SELECT ['a', NULL] AS tags, {'a': 2} AS s, 1::INT AS id)"
        f" TO '{file}' (FORMAT parquet)"
    )
    workshop.rows(f"CALL ducklake_add_data_files('lake', 'q', '{file}')")
    assert in_spark(lake("q")) == in_duckdb(workshop, "SELECT * FROM q") != Counter()


def test_the_copy_of_a_stream_table_is_read(shore: Shore, reading_spark: SparkSession) -> None:
    shore.create("sums", SUMS)
    shore.window("sums", "UPDATE t SET v = v + 1 WHERE k = 2", "DELETE FROM t WHERE k = 3")
    reader = reading_spark.read.format("ducklake").option("dsn", shore.trickle.dsn)
    rows = reader.options(catalog_schema="lake", table="sums").load().collect()
    assert Counter(tuple(row) for row in rows) == Counter(shore.tell("TABLE sums"))


def test_files_without_rows_of_interest_are_left_out(workshop: Workshop, lake: Lake) -> None:
    workshop.rows("CALL lake.set_option('data_inlining_row_limit', 0)")
    workshop.rows("CREATE TABLE w (id INT, d DECIMAL(9,2), s VARCHAR, f FLOAT, day DATE)")
    for number in range(3):
        workshop.rows(
            f"INSERT INTO w SELECT {number} * 10 + i, i / 4, 's' || {number}, 1.1,"
            f" CASE {number} WHEN 1 THEN NULL ELSE DATE '2026-01-0{number + 1}' END"
            " FROM range(10) r(i)"
        )

    def read(*conditions: Condition) -> int:
        return len(plan_of(workshop, "w", *conditions).files)

    assert read() == 3
    assert read(Condition("id", "=", (15,))) == 1
    assert read(Condition("id", "in", (5, 25))) == 2
    assert read(Condition("id", ">", (19,))) == 1
    assert read(Condition("id", ">=", (19,)), Condition("s", "=", ("s1",))) == 1
    assert read(Condition("id", "<", (0,))) == 0
    assert read(Condition("d", "<=", (Decimal("-0.01"),))) == 0
    assert read(Condition("day", "null")) == 1
    assert read(Condition("day", "not null")) == 2
    assert read(Condition("f", "=", (7.0,))) == 3  # never by floats
    assert read(Condition("nobody", "=", (1,))) == 3
    for where in ("id = 15", "id > 19", "s = 's1' AND id < 13", "day IS NULL", "f > 1", "id < 0",
                  "day = DATE '2026-01-03'", "d >= 2.25", "id IN (3, 33)"):  # fmt: skip
        expected = in_duckdb(workshop, f"SELECT * FROM w WHERE {where}")
        assert in_spark(lake("w").where(where)) == expected, where


def test_long_text_leaves_no_file_out(workshop: Workshop) -> None:
    workshop.rows("CALL lake.set_option('data_inlining_row_limit', 0)")
    workshop.rows("CREATE TABLE w (s VARCHAR)")
    workshop.rows("INSERT INTO w VALUES (repeat('ä', 2000) || '1'), (repeat('ä', 2000) || '2')")
    wanted = Condition("s", "=", ("ä" * 2000 + "2",))
    assert len(plan_of(workshop, "w", wanted).files) == 1
    assert len(plan_of(workshop, "w", Condition("s", ">", ("ä" * 2000 + "1",))).files) == 1


def test_spark_asks_for_the_files_that_its_filter_needs(workshop: Workshop, lake: Lake) -> None:
    workshop.rows("CALL lake.set_option('data_inlining_row_limit', 0)")
    workshop.rows("CREATE TABLE w (id INT)")
    workshop.rows("INSERT INTO w VALUES (1)")
    workshop.rows("INSERT INTO w VALUES (2)")
    frame = lake("w")
    [(lost,)] = workshop.rows(
        "SELECT data_file FROM ducklake_list_files('lake', 'w') ORDER BY 1 LIMIT 1"
    )
    [(inside,)] = workshop.rows(f"SELECT id FROM read_parquet('{lost}')")
    Path(lost).rename(f"{lost}.away")
    assert [row.id for row in frame.where(f"id = {3 - inside}").collect()] == [3 - inside]
    with pytest.raises(Exception, match="ST710: could not read the file"):
        frame.where(f"id = {inside}").collect()


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"table": "nowhere"}, "the lake has no table"),
    ({"version": "99"}, "the lake has no snapshot 99"),
    ({"version": "1", "timestamp": "2026-01-01"}, "exclude one another"),
    ({"timestamp": "soon"}, "is no moment"),
    ({"version": "-1"}, "is no version"),
    ({"dsn": "password=hush nonsense"}, "is not a valid connection string"),
    ({"columns": "id, nobody"}, 'no column "nobody"'),
    ({"columns": "i"}, "Spark has no type"),
    ({"catalog_schema": "elsewhere"}, "holds no DuckLake catalog"),
    ({"dsn": "host=nowhere password=hush"}, "holds a password"),
    ({"tabel": "t"}, "there is no option"),
]


def test_what_cannot_be_read_is_refused(workshop: Workshop, lake: Lake) -> None:
    workshop.rows("CREATE TABLE t (id INT, i INTERVAL)")
    for options, message in REFUSED:
        with pytest.raises(Exception, match=f"ST704: .*{message}") as caught:
            lake(options.get("table", "t"), **{k: v for k, v in options.items() if k != "table"})
        assert "hush" not in str(caught.value)


def test_values_that_spark_lacks_are_refused_and_may_be_left_out(
    workshop: Workshop, lake: Lake
) -> None:
    workshop.rows("CREATE TABLE t (id INT, day DATE, l INT[])")
    workshop.rows("INSERT INTO t VALUES (1, 'infinity', [1])")
    with pytest.raises(Exception, match="ST704: a value of the column"):
        lake("t", columns="day").collect()
    assert lake("t", columns="l, id").collect() == [([1], 1)]
    workshop.rows("CALL ducklake_flush_inlined_data('lake')")
    with pytest.raises(Exception, match='ST704: the column "day" holds infinity'):
        lake("t").collect()
    assert lake("t", columns="l, id").collect() == [([1], 1)]


def test_a_file_without_ids_is_not_read_by_position(workshop: Workshop, lake: Lake) -> None:
    workshop.rows("CALL lake.set_option('data_inlining_row_limit', 0)")
    workshop.rows("CREATE TABLE t (id INT)")
    workshop.rows("INSERT INTO t VALUES (1)")
    [(path,)] = workshop.rows("SELECT data_file FROM ducklake_list_files('lake', 't')")
    workshop.rows(f"COPY (SELECT 1::INT AS id) TO '{path}' (FORMAT parquet)")
    with pytest.raises(Exception, match=r"ST704: the file .* does not say which columns it has"):
        lake("t").collect()
