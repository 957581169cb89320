"""Snapshots that the lake keeps: they come back exactly, stay, and say so when they are lost."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgtrickle.catalog.snapshots.entries import insert_lake_place, insert_snapshot
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import TrickleError
from pgtrickle.model.table_snapshot import ListedSnapshot
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.sinks.ducklake.snapshots import keep_copy
from pgtrickle.service.sinks.ducklake.upkeep import maintain_lake
from tests.lake.shore import COPY, SUMS, FarShore, Shore
from tests.security.serving import until

_AT_ONCE = timedelta(0)
_WAITS = (
    "SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database"
    " WHERE NOT l.granted AND l.mode = '{}'"
    " AND d.datname = current_database()"
)
_EXACT = {  # types, and values that come back as they were
    "boolean": ["true", "false"],
    "smallint": ["-32768"],
    "integer": ["2147483647"],
    "bigint": ["-9223372036854775808"],
    "real": ["0.1", "-Infinity", "NaN", "-0"],
    "double precision": ["5e-324", "0.1", "Infinity", "-0"],
    "numeric(12,2)": ["9999999999.99", "-0.01", "0"],
    "numeric(38,20)": ["0.00000000000000000001", "-1"],
    "numeric(3,-2)": ["12300"],
    "numeric(2,5)": ["0.00012"],
    "numeric(60,1)": ["1e50", "-0.5"],
    "numeric": ["1.50", "-12345.67"],
    "numeric(5,1)": ["NaN", "1.5"],
    "date": ["0001-01-01", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity"],
    "time": ["00:00", "23:59:59.999999", "24:00"],
    "timetz": ["23:59:59.999999-12"],
    "timestamp": ["2026-02-28 10:00:00.000001", "4713-01-01 00:00 BC", "infinity", "-infinity"],
    "timestamptz": ["1969-12-31 23:59:59.999999+00", "infinity", "294000-01-01 00:00+00"],
    "interval": ["1 mon -3 days 04:05:06.000007", "24:00", "1 day"],
    "uuid": ["12345678-9abc-def0-1234-56789abcdef0"],
    "bytea": [r"\x00ff", r"\x", r"\x5c2e"],
    "json": ['{"a":  1, "a": 2}', "null"],
    "jsonb": ['{"a": 1.50}', "null"],
    "text": ["", "NULL", r"\.", r"\N", "a\nb\r\n,\"'", " "],
    "varchar(5)": ["a  "],
    "char(5)": ["a"],
    '"char"': ["x"],
    "name": ["n"],
    "inet": ["10.0.0.1/8"],
    "int4range": ["[1,5)", "empty"],
    "numrange": ["[1.0,1.50)"],
    "tsvector": ["'a':1 'b'"],
    "bit(3)": ["101"],
    "box": ["(1,1),(0,0)"],
    "integer[]": ["{}", "{1,NULL,3}"],
    "text[]": [r'{"a\"b","NULL",NULL,"","\\","{,}"}'],
    "numeric[]": ["{1.0,1.50}"],
    "date[]": ["{infinity,-infinity,2026-01-31}"],
    "timestamptz[]": ["{infinity,2026-01-31 12:00:00.5+00}"],
    "time[]": ["{24:00,NULL}"],
    "bytea[]": [r'{"\\x00ff",NULL}'],
    "boolean[]": ["{t,NULL,f}"],
    "double precision[]": ["{NaN,-0,0.1}"],
    "box[]": ["{(1,1),(0,0);(2,2),(1,1)}"],
    "integer[][]": ["{{1,2},{3,4}}", "[0:1]={7,8}"],
    "mood": ["sad", "so so"],
    "pair": ['(1,"a,b")'],
    "mood[]": ["{sad,NULL}"],
    "posint": ["7"],
}
_MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'so so')",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN posint AS int CHECK (VALUE > 0)",
)


def take(shore: Shore, name: str = "copy", target: str | None = "kept") -> str:
    return str(shore.trickle.snapshots.snapshot_stream_table(name, target, to_lake=True))


def restore(shore: Shore, source: str = "kept", name: str = "copy") -> None:
    shore.trickle.snapshots.restore_from_snapshot(name, source)
    shore.check(name)


def code_of(work: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(TrickleError) as caught:
        work(*arguments, **named)
    assert caught.value.hint
    return caught.value.code


def only(shore: Shore) -> ListedSnapshot:
    [found] = shore.trickle.snapshots.list_snapshots()
    return found


def rows(shore: Shore, name: str = "copy") -> list[Any]:
    return sorted(shore.tell(f"SELECT ROW(t.*)::text FROM {name} AS t"))


def lose_all_rows(shore: Shore, name: str = "copy") -> None:
    shore.run(
        f"ALTER TABLE {name} DISABLE TRIGGER USER",
        f"DELETE FROM {name}",
        f"ALTER TABLE {name} ENABLE TRIGGER USER",
    )


def test_values_of_every_type_come_back_as_they_were(shore: Shore):
    shore.run(*_MADE)
    columns = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(_EXACT))
    shore.run(f"CREATE TABLE u (n int, {columns})", "INSERT INTO u (n) VALUES (0)")
    for number, values in enumerate(_EXACT.values()):
        for value in values:
            shore.connection.execute(f"INSERT INTO u (c{number}) VALUES (%s)".encode(), [value])
    shore.trickle.create_stream_table("copy", "SELECT * FROM u", sink="ducklake")
    before = rows(shore)

    take(shore)
    lose_all_rows(shore)
    shore.trickle.snapshots.restore_from_snapshot("copy", "kept")

    assert rows(shore) == before
    assert shore.trickle.snapshots.diff_snapshots("kept").changes == ()
    shore.trickle.refresh_stream_table("copy")
    assert shore.trickle.verify_stream_table("copy").ok


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("numeric", ["0.5", "0.50"]),
        ("numeric", ["1.0000000000000001", "2"]),
        ("bpchar", ["a", "b  "]),
        ("bpchar[]", ['{"a  "}']),
    ],
)
def test_values_that_would_come_back_otherwise_are_refused_by_name(
    shore: Shore, type_: str, values: list[str]
):
    shore.run(f"CREATE TABLE u (id int, odd {type_})")
    for value in values:
        shore.connection.execute(b"INSERT INTO u VALUES (1, %s)", [value])
    shore.trickle.create_stream_table("copy", "SELECT * FROM u", sink="ducklake")

    with pytest.raises(TrickleError, match="columns odd of") as caught:
        take(shore)

    assert caught.value.code == "ST221"
    assert shore.trickle.snapshots.list_snapshots() == []
    shore.trickle.snapshots.snapshot_stream_table("copy", "kept")


def test_rows_state_and_frontier_come_back_and_the_next_refresh_continues(shore: Shore):
    shore.create("copy", SUMS)
    before = rows(shore)

    taken = take(shore, target=None)
    shore.run("UPDATE t SET v = v * 2 WHERE k = 1", "INSERT INTO t VALUES (500, 9, 1, 'x')")

    found = only(shore)
    assert (found.lake_table, found.lake_snapshot) == (
        "main.copy",
        shore.trickle.lake.show_as_of("copy", found.lake_snapshot or 0).snapshot_id,
    )
    assert (str(found.table), found.row_count, found.gap, found.restorable) == (
        taken,
        5,
        None,
        True,
    )
    assert shore.tell(f"SELECT to_regclass('{taken}') IS NULL") == [(True,)]
    lose_all_rows(shore)
    restore(shore, taken)
    assert rows(shore) == before
    assert shore.window("copy").action.value == "DIFFERENTIAL"
    assert shore.trickle.verify_stream_table("copy").ok
    shore.trickle.snapshots.drop_snapshot(taken)
    assert shore.tell("SELECT count(*) FROM pgtrickle.pgt_lake_snapshots") == [(0,)]
    assert shore.tell("SELECT count(*) FROM pg_class WHERE relname LIKE 'snapshot%'") == [(0,)]


def test_housekeeping_keeps_what_a_snapshot_needs_and_nothing_longer(shore: Shore):
    shore.create("copy", COPY)
    shore.window("copy", "DELETE FROM t WHERE id % 3 = 0", "UPDATE t SET k = 9 WHERE id % 4 = 0")
    before = rows(shore)
    take(shore)
    at = only(shore).lake_snapshot
    for number in range(10):
        shore.window("copy", f"UPDATE t SET v = v + 1 WHERE id % 10 = {number}")
    shore.window("copy", "TRUNCATE t", "INSERT INTO t VALUES (1, 1, 1, 'last')")

    for _ in range(3):
        shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)
        shore.ask("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    listed = [
        snapshot
        for (snapshot,) in shore.tell("SELECT snapshot_id FROM lake.ducklake_snapshot ORDER BY 1")
    ]
    assert listed[0] == at
    assert len(listed) == 2

    assert only(shore).restorable
    assert shore.trickle.snapshots.diff_snapshots("kept").rows_removed == len(before)
    restore(shore)
    assert rows(shore) == before

    shore.trickle.snapshots.drop_snapshot("kept")
    shore.window("copy", "INSERT INTO t VALUES (2, 2, 2, 'more')")
    shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)
    assert shore.tell(f"SELECT FROM lake.ducklake_snapshot WHERE snapshot_id = {at}") == []


def test_what_another_client_lets_expire_is_told_and_not_restored(shore: Shore):
    shore.create("copy", COPY)
    take(shore)
    at = only(shore).lake_snapshot
    shore.window("copy", "UPDATE t SET v = v + 1")
    present = rows(shore)

    shore.ask(f"CALL ducklake_expire_snapshots('lake', versions => [{at}])")

    found = only(shore)
    assert (found.gap, found.restorable) == (f"snapshot {at} of the lake has expired", False)
    assert code_of(restore, shore) == "ST222"
    assert code_of(shore.trickle.snapshots.diff_snapshots, "kept") == "ST222"
    assert rows(shore) == present
    shore.trickle.snapshots.drop_snapshot("kept")
    shore.window("copy", "UPDATE t SET v = v + 1")


def test_rows_that_are_no_longer_the_same_are_not_restored(shore: Shore):
    shore.create("copy", COPY)
    shore.window("copy", "INSERT INTO t SELECT i, 1, 1, 'x' FROM generate_series(900, 950) AS i")
    take(shore)
    shore.window("copy", "UPDATE t SET v = v + 1")
    present = rows(shore)

    shore.run(
        "UPDATE lake.ducklake_data_file SET end_snapshot = 2 WHERE data_file_id ="
        " (SELECT max(data_file_id) FROM lake.ducklake_data_file WHERE record_count = 51)"
    )
    assert code_of(restore, shore) == "ST222"
    shutil.rmtree(shore.path / "main")
    assert code_of(restore, shore) == "ST710"
    assert rows(shore) == present


def test_copy_that_is_behind_is_brought_up_to_date_first(shore: Shore):
    shore.create("copy", COPY)
    hidden = shore.path.with_name("hidden")
    shore.path.rename(hidden)
    shore.run("UPDATE t SET v = v + 1")
    shore.trickle.refresh_stream_table("copy")
    assert code_of(take, shore) == "ST221"
    assert shore.trickle.snapshots.list_snapshots() == []

    hidden.rename(shore.path)
    before = rows(shore)
    take(shore)

    shore.check("copy")
    lose_all_rows(shore)
    restore(shore)
    assert rows(shore) == before


def test_copy_that_others_changed_is_written_again_first(shore: Shore):
    shore.create("copy", COPY)
    shore.ask("DELETE FROM copy WHERE k = 1")
    before = rows(shore)

    take(shore)

    shore.check("copy")
    lose_all_rows(shore)
    restore(shore)
    assert rows(shore) == before


def test_stream_table_without_a_copy_is_refused(shore: Shore):
    shore.trickle.create_stream_table("alone", COPY)

    assert code_of(take, shore, "alone") == "ST221"
    assert code_of(take, shore, "nothing") == "ST201"


def test_copy_whose_catalog_is_in_another_database_is_refused(far: FarShore):
    far.create("copy", COPY)

    assert code_of(take, far) == "ST221"


def test_names_are_taken_once(shore: Shore):
    shore.create("copy", COPY)
    take(shore)

    found = shore.trickle.lake.show_as_of("copy", "kept", max_rows=1_000)
    assert found.snapshot_id == only(shore).lake_snapshot
    assert code_of(take, shore) == "ST217"
    assert code_of(take, shore, "copy", "t") == "ST217"
    assert code_of(take, shore, "copy", "nowhere.kept") == "ST208"
    assert code_of(shore.trickle.snapshots.snapshot_stream_table, "copy", "kept") == "ST217"


def test_snapshots_of_both_kinds_are_compared(shore: Shore):
    shore.create("copy", COPY)
    take(shore)
    shore.window("copy", "DELETE FROM t WHERE id <= 3", "INSERT INTO t VALUES (500, 1, 1, 'new')")
    shore.trickle.snapshots.snapshot_stream_table("copy", "later")
    shore.window("copy", "DELETE FROM t WHERE id = 500")

    ahead = shore.trickle.snapshots.diff_snapshots("kept", "later")
    back = shore.trickle.snapshots.diff_snapshots("later", "kept", 1)

    assert (ahead.rows_added, ahead.rows_removed) == (1, 3)
    assert (back.rows_added, back.rows_removed, back.complete) == (3, 1, False)
    with pytest.raises(psycopg.Error) as caught:
        shore.tell("SELECT * FROM pgtrickle.diff_snapshots('kept')")
    assert caught.value.sqlstate == "ST221"


def test_sink_may_be_turned_off_and_the_catalog_moved(shore: Shore):
    shore.create("copy", COPY)
    before = rows(shore)
    take(shore)
    shore.window("copy", "UPDATE t SET v = v + 1")
    shore.trickle.alter_stream_table("copy", sink="none")
    shore.client.close()
    shore.run("ALTER TABLE t ADD COLUMN more int")
    shore.trickle.lake.move_ducklake_catalog("elsewhere", from_schema="lake")

    assert only(shore).restorable
    shore.trickle.snapshots.restore_from_snapshot("copy", "kept")

    assert rows(shore) == before


def test_daemon_takes_restores_and_drops(shore: Shore):
    shore.create("copy", COPY)
    before = rows(shore)
    with shore.trickle.daemon.serving_requests():
        shore.run("CALL pgtrickle.snapshot_stream_table('copy', 'kept', to_lake => true)")
        lose_all_rows(shore)
        shore.run("CALL pgtrickle.restore_from_snapshot('copy', 'kept')")
        assert rows(shore) == before
        assert shore.tell(
            "SELECT lake_table, restorable FROM pgtrickle.list_snapshots('copy')"
        ) == [("main.copy", True)]
        shore.run("CALL pgtrickle.drop_snapshot('kept')")
    assert shore.trickle.snapshots.list_snapshots() == []


def test_expiring_waits_for_a_snapshot_that_is_being_taken(shore: Shore):
    """Whoever lets snapshots expire reads which are kept only when nobody can keep another one."""
    shore.create("copy", COPY)
    shore.ask("CREATE TABLE other (id int)")
    before = rows(shore)
    runtime = shore.trickle._runtime
    stream_table = get_stream_table(shore.connection, QualifiedName("public", "copy"))
    columns = compile_stream_table(shore.connection, stream_table).columns
    with ThreadPoolExecutor() as pool, runtime.connection() as connection:
        with connection.transaction():
            kept = keep_copy(connection, stream_table, columns).place()
            # It comes first, so that the kept snapshot is not the newest one any more.
            inserting = pool.submit(shore.ask, "INSERT INTO other VALUES (1)")
            until(lambda: shore.tell(_WAITS.format("RowExclusiveLock")))
            expiring = pool.submit(maintain_lake, runtime, _AT_ONCE, _AT_ONCE)
            until(lambda: shore.tell(_WAITS.format("ShareUpdateExclusiveLock")))
            snapshot_id = insert_snapshot(
                connection,
                stream_table,
                QualifiedName("public", "kept"),
                plan=None,
                needs_reinit=True,
                rows=kept.rows,
                in_lake=True,
            )
            insert_lake_place(connection, snapshot_id, kept)
        assert inserting.result() is not None
        assert expiring.result().expired > 0

    restore(shore)

    assert rows(shore) == before
