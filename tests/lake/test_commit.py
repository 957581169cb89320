"""The recipe of a commit: what DuckDB makes of it, above all where a mistake would be silent."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from pgtrickle.errors import LakeCatalogError
from pgtrickle.lake.format.catalog import create_catalog, find_catalog
from pgtrickle.lake.write.commit import begin_commit
from pgtrickle.lake.write.parquet import DataFileWriter
from pgtrickle.model.sql_type import BIGINT
from pgtrickle.model.text.names import QualifiedName
from tests.lake.workshop import FLOAT, INTEGERS, Workshop


def test_catalog_made_by_sql_is_found_again_and_accepts_a_table_of_duckdb(workshop: Workshop):
    workshop.rows("CREATE TABLE own AS SELECT 42 AS answer")

    assert find_catalog(workshop.connection, "lake") == workshop.catalog
    assert workshop.rows("SELECT answer FROM own") == [(42,)]


def test_there_is_no_catalog_in_an_ordinary_schema(workshop: Workshop):
    assert find_catalog(workshop.connection, "public") is None


def test_catalog_of_another_version_is_refused(workshop: Workshop):
    workshop.connection.execute(
        "UPDATE lake.ducklake_metadata SET value = '2.0' WHERE key = 'version'"
    )

    with pytest.raises(LakeCatalogError):
        find_catalog(workshop.connection, "lake")


def test_search_path_does_not_lead_to_another_catalog(workshop: Workshop, tmp_path):
    create_catalog(workshop.connection, "decoy", str(tmp_path / "decoy"))
    workshop.connection.execute("SET search_path = decoy")

    workshop.create("t")
    workshop.append("t", [1], ["one"])

    assert workshop.rows("SELECT * FROM t") == [(1, "one")]
    assert workshop.connection.execute(
        "SELECT count(*) FROM decoy.ducklake_snapshot"
    ).fetchall() == [(1,)]


def test_columns_are_bound_by_id_and_not_by_position(workshop: Workshop):
    workshop.create("t", ("id", BIGINT), ("other", BIGINT))
    table_id, columns = workshop.tables["t"]
    writer = DataFileWriter(workshop.place("t"), columns[::-1])
    writer.write([pa.array([20]), pa.array([1])])
    file = writer.close()
    with workshop.connection.transaction():
        commit = begin_commit(workshop.connection, workshop.catalog)
        commit.add_data_files(table_id, [file])
        commit.finish(author="test", message="append")

    assert workshop.rows("SELECT id, other FROM t") == [(1, 20)]


def test_elements_of_lists_are_not_null(workshop: Workshop):
    workshop.create("t", ("id", BIGINT), ("list", INTEGERS))
    workshop.append("t", [1, 2, 3, 4], [[1, None, 3], [], None, [None]])

    assert workshop.rows("SELECT list FROM t ORDER BY id") == [
        ([1, None, 3],),
        ([],),
        (None,),
        ([None],),
    ]


def test_second_delete_on_one_file_neither_doubles_rows_nor_tells_of_the_first_again(
    workshop: Workshop,
):
    workshop.create("t")
    file_id = workshop.append("t", [1, 2, 3, 4], list("abcd"))
    workshop.delete("t", file_id, 1)
    workshop.delete("t", file_id, 3)

    assert workshop.rows("SELECT id FROM t ORDER BY id") == [(1,), (3,)]
    assert workshop.rows("SELECT count(*) FROM t") == [(2,)]
    assert workshop.rows("SELECT id FROM t AT (VERSION => 3) ORDER BY id") == [(1,), (3,), (4,)]
    assert workshop.rows(
        "SELECT snapshot_id, id FROM table_changes('t', 3, 4) WHERE change_type = 'delete'"
        " ORDER BY 1"
    ) == [(3, 2), (4, 4)]
    [(scheduled,)] = workshop.connection.execute(
        "SELECT path FROM lake.ducklake_files_scheduled_for_deletion"
    ).fetchall()
    assert (workshop.path / scheduled).is_file()


def test_inlined_deletes_reach_a_client_that_is_already_attached(workshop: Workshop):
    table_id = workshop.create("t")
    file_id = workshop.append("t", [1, 2, 3, 4], list("abcd"))
    assert workshop.rows("SELECT count(*) FROM t") == [(4,)]
    for position in (0, 2):
        with workshop.connection.transaction():
            commit = begin_commit(workshop.connection, workshop.catalog)
            commit.inline_deletes(table_id, f"VALUES ({file_id}::bigint, {position}::bigint)")
            commit.finish(author="test", message="delete")

    assert workshop.rows("SELECT id FROM t ORDER BY id") == [(2,), (4,)]
    assert workshop.rows("SELECT count(*) FROM t") == [(2,)]
    assert workshop.rows("SELECT count(*) FROM t AT (VERSION => 3)") == [(3,)]
    assert workshop.rows(
        "SELECT snapshot_id, id FROM table_changes('t', 3, 4) WHERE change_type = 'delete'"
        " ORDER BY 1"
    ) == [(3, 1), (4, 3)]


def test_table_of_inlined_deletes_is_open_to_those_to_whom_the_catalog_is(workshop: Workshop):
    table_id = workshop.create("t")
    file_id = workshop.append("t", [1, 2], list("ab"))
    workshop.connection.execute("GRANT SELECT ON lake.ducklake_snapshot TO pg_monitor")
    with workshop.connection.transaction():
        commit = begin_commit(workshop.connection, workshop.catalog)
        commit.inline_deletes(table_id, f"VALUES ({file_id}::bigint, 0::bigint)")
        commit.finish(author="test", message="delete")

    [(reads, writes)] = workshop.connection.execute(
        f"SELECT has_table_privilege('pg_monitor', t, 'SELECT'),"
        f" has_table_privilege('pg_monitor', t, 'INSERT')"
        f" FROM (SELECT 'lake.ducklake_inlined_delete_{table_id}') AS x (t)".encode()
    ).fetchall()
    assert (reads, writes) == (True, False)


def test_inlined_deletes_and_delete_files_of_one_data_file_add_up(workshop: Workshop):
    table_id = workshop.create("t")
    file_id = workshop.append("t", [1, 2, 3, 4], list("abcd"))
    workshop.delete("t", file_id, 0)
    with workshop.connection.transaction():
        commit = begin_commit(workshop.connection, workshop.catalog)
        commit.inline_deletes(table_id, f"VALUES ({file_id}::bigint, 1::bigint)")
        commit.finish(author="test", message="delete")

    assert workshop.rows("SELECT id FROM t ORDER BY id") == [(3,), (4,)]
    assert workshop.rows("SELECT count(*) FROM t") == [(2,)]


def test_count_is_answered_from_the_catalog_and_equals_the_rows(workshop: Workshop):
    workshop.create("t")
    file_id = workshop.append("t", list(range(100)), ["x"] * 100)
    workshop.append("t", list(range(50)), ["y"] * 50)
    workshop.delete("t", file_id, *range(10))

    [(counted,)] = workshop.rows("SELECT count(*) FROM t")

    assert counted == len(workshop.rows("SELECT id FROM t")) == 140


def test_no_row_is_pruned_away_by_the_least_and_greatest_value(workshop: Workshop):
    workshop.create("t")
    workshop.append("t", [5, 7], ["m", None])
    workshop.append("t", [-100, 9], ["a", "z" * 500])
    workshop.append("t", [1_000_000, 10], ["ä", ""])

    assert workshop.rows("SELECT id FROM t WHERE id < 0") == [(-100,)]
    assert workshop.rows("SELECT id FROM t WHERE id > 100") == [(1_000_000,)]
    assert workshop.rows("SELECT id FROM t WHERE v > 'zz' ORDER BY id") == [(9,), (1_000_000,)]
    assert workshop.rows("SELECT id FROM t WHERE v = ''") == [(10,)]
    assert workshop.rows("SELECT id FROM t WHERE v IS NULL") == [(7,)]


def test_nan_is_found_by_a_comparison(workshop: Workshop):
    workshop.create("t", ("id", BIGINT), ("f", FLOAT))
    workshop.append("t", [1, 2, 3], [1.0, math.nan, None])
    workshop.append("t", [4, 5], [-math.inf, 0.5])

    assert workshop.rows("SELECT id FROM t WHERE f > 2") == [(2,)]
    assert workshop.rows("SELECT id FROM t WHERE f < 0") == [(4,)]


def test_row_ids_stay_distinct_when_duckdb_inserts_after_us(workshop: Workshop):
    workshop.create("t")
    workshop.append("t", [1, 2], ["a", "b"])
    workshop.rows("INSERT INTO t VALUES (3, 'c')")
    workshop.append("t", [4], ["d"])

    assert workshop.rows("SELECT id, rowid FROM t ORDER BY id") == [(1, 0), (2, 1), (3, 2), (4, 3)]


def test_new_view_is_seen_by_a_client_that_is_already_attached(workshop: Workshop):
    workshop.create("t")
    workshop.append("t", [1, 2], ["a", "b"])
    workshop.rows("SELECT * FROM t")
    name = QualifiedName("main", "v")
    with workshop.connection.transaction():
        commit = begin_commit(workshop.connection, workshop.catalog)
        view_id = commit.put_view(0, name, "SELECT id FROM t WHERE id = 1")
        before = commit.finish(author="test", message="view")
    assert workshop.rows("SELECT * FROM v") == [(1,)]

    with workshop.connection.transaction():
        commit = begin_commit(workshop.connection, workshop.catalog)
        commit.put_view(0, name, "SELECT id FROM t WHERE id = 2", replaces=view_id)
        commit.finish(author="test", message="view")

    assert workshop.rows("SELECT * FROM v") == [(2,)]
    assert workshop.rows(f"SELECT * FROM v AT (VERSION => {before})") == [(1,)]


def test_duckdb_writes_files_after_ours(workshop: Workshop):
    workshop.create("t")
    file_id = workshop.append("t", [1, 2], ["a", "b"])
    workshop.delete("t", file_id, 0)

    workshop.rows("INSERT INTO t SELECT i, 'many' FROM range(100) AS r (i)")

    assert workshop.rows("SELECT count(*) FROM t") == [(101,)]


def test_snapshots_tell_who_wrote_them_and_why(workshop: Workshop):
    workshop.create("t")
    workshop.append("t", [1], ["a"])

    told = workshop.rows("SELECT author, commit_message, changes FROM lake.snapshots() ORDER BY 1")

    assert ("test", "append", {"tables_inserted_into": ["1"]}) in told


def test_update_keeps_its_row_id_and_shows_both_images(workshop: Workshop):
    table_id = workshop.create("t")
    file_id = workshop.append("t", [1, 2], ["a", "b"])
    file = workshop.write("t", [2], ["B"], row_ids=[1])
    with workshop.connection.transaction():
        commit = begin_commit(workshop.connection, workshop.catalog)
        commit.add_data_files(table_id, [file])
        commit.inline_deletes(table_id, f"VALUES ({file_id}::bigint, 1::bigint)")
        commit.finish(author="test", message="update")

    assert workshop.rows("SELECT rowid, * FROM t ORDER BY id") == [(0, 1, "a"), (1, 2, "B")]
    assert workshop.rows(
        "SELECT change_type, rowid, v FROM table_changes('t', 3, 3) ORDER BY change_type"
    ) == [("update_postimage", 1, "B"), ("update_preimage", 1, "b")]


def test_replaced_columns_show_in_time_travel_as_they_were(workshop: Workshop):
    table_id = workshop.create("t")
    workshop.append("t", [1], ["a"])
    _, (id_, _) = workshop.tables["t"]
    with workshop.connection.transaction():
        commit = begin_commit(workshop.connection, workshop.catalog)
        commit.replace_columns(table_id, [id_])
        commit.finish(author="test", message="drop a column")

    assert workshop.rows("SELECT * FROM t") == [(1,)]
    assert workshop.rows("SELECT * FROM t AT (VERSION => 2)") == [(1, "a")]


def test_ended_files_and_dropped_tables_are_gone_now_and_there_before(workshop: Workshop):
    table_id = workshop.create("t")
    workshop.append("t", [1], ["a"])
    with workshop.connection.transaction():
        commit = begin_commit(workshop.connection, workshop.catalog)
        commit.end_data_files(table_id)
        commit.finish(author="test", message="empty")
    assert workshop.rows("SELECT count(*) FROM t") == [(0,)]
    with workshop.connection.transaction():
        commit = begin_commit(workshop.connection, workshop.catalog)
        commit.drop_table(table_id)
        commit.finish(author="test", message="drop")

    assert workshop.rows("SHOW TABLES") == []
    assert workshop.rows("SELECT * FROM t AT (VERSION => 2)") == [(1, "a")]


def test_snapshot_that_is_rolled_back_leaves_nothing(workshop: Workshop):
    table_id = workshop.create("t")
    file = workshop.write("t", [1], ["a"])
    with workshop.connection.transaction(force_rollback=True):
        commit = begin_commit(workshop.connection, workshop.catalog)
        commit.add_data_files(table_id, [file])
        commit.finish(author="test", message="append")

    assert workshop.rows("SELECT count(*) FROM t") == [(0,)]
    workshop.append("t", [2], ["b"])
    assert workshop.rows("SELECT rowid, id FROM t") == [(0, 2)]


def test_snapshots_are_dated(workshop: Workshop):
    workshop.create("t")

    [(when,)] = workshop.rows("SELECT max(snapshot_time) FROM lake.snapshots()")

    assert abs((datetime.now(UTC) - when).total_seconds()) < 60


def test_statistics_of_a_table_are_written_only_where_they_widen(workshop: Workshop):
    table_id = workshop.create("t")
    workshop.append("t", [1, 9], ["b", "m"])

    def written() -> dict[int, list[str]]:
        found = workshop.connection.execute(
            "SELECT column_id, xmin::text, min_value, max_value"
            " FROM lake.ducklake_table_column_stats WHERE table_id = %s",
            [table_id],
        )
        return {column_id: row for column_id, *row in found}

    before = written()
    workshop.append("t", [5, 5], ["a", "c"])

    assert written()[1] == before[1]
    assert written()[2][0] != before[2][0]
    assert written()[2][1:] == ["a", "m"]
    assert workshop.rows("SELECT id FROM t WHERE v = 'a'") == [(5,)]
