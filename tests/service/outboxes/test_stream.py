"""The law of an outbox: the contents at a position, and the changes after it, give the contents."""

from __future__ import annotations

import random

import psycopg
import pytest

from pgtrickle.errors import ChangesGoneError, OutboxMissingError, SettingError, TrickleError
from tests.labs.lab import Lab
from tests.seeds import seed_of
from tests.service.outboxes.replica import Replica

_SEED = seed_of("PGTRICKLE_OUTBOX_SEED", 22)
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v numeric, w float8, note text)",
    "CREATE TABLE names (k int, name text)",
    "INSERT INTO t SELECT i, nullif(i % 4, 3), i % 7, i / 3.0, nullif('n' || i % 5, 'n2')"
    " FROM generate_series(1, 20) AS i",
    "INSERT INTO names SELECT i, 'n' || i FROM generate_series(0, 3) AS i",
)
# The query, and the key that its changes have.
QUERIES = {
    "keyed": ("SELECT id, k, v + 0.5 AS v, w, note FROM t WHERE v > 1", ["id"]),
    "duplicates": ("SELECT n.name, t.v FROM t LEFT JOIN names AS n ON n.k = t.k", None),
    "groups": ("SELECT k, count(*) AS n, sum(v) AS total, max(w) AS w FROM t GROUP BY k", ["k"]),
    "one_row": ("SELECT count(*) AS n, max(v) AS top FROM t", []),
    "distinct_rows": ("SELECT DISTINCT k, note FROM t", ["k", "note"]),
    "ranks": ("SELECT id, row_number() OVER (PARTITION BY k ORDER BY v, id) AS r FROM t", None),
    "joined": ("SELECT t.id, n.name FROM t JOIN names AS n ON n.k = t.k", None),
}


def _write(lab: Lab, draw: random.Random, number: int) -> None:
    some = draw.randrange(20)
    lab.run(
        draw.choice(
            [
                f"UPDATE t SET v = v + {some} / 10.0 WHERE id % 5 = {some % 5}",
                f"UPDATE t SET k = nullif((coalesce(k, 3) + 1) % 4, 3) WHERE id % 7 = {some % 7}",
                f"UPDATE t SET note = NULL, w = -0.0 WHERE id % 6 = {some % 6}",
                f"DELETE FROM t WHERE id % 11 = {some % 11}",
                f"UPDATE names SET name = 'm{some}' WHERE k = {some % 4}",
                f"INSERT INTO names VALUES ({some % 5}, 'x'), ({some % 5}, 'x')",
                f"DELETE FROM names WHERE k = {some % 4}",
                f"UPDATE t SET id = id + 1000 WHERE id % 9 = {some % 9}",
                "TRUNCATE names",
            ]
        ),
        f"INSERT INTO t VALUES ({5000 + number}, {some % 4}, {some}, 'NaN', 'new')",
    )


@pytest.mark.parametrize("threshold", [10_000, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_the_contents_follow_from_the_outbox(postgres_lab: Lab, name: str, threshold: int) -> None:
    lab, draw = postgres_lab, random.Random(f"{_SEED} {name} {threshold}")
    query, key = QUERIES[name]
    lab.run(*TABLES)
    lab.create(name, query)
    lab.trickle.outbox.enable_outbox(name, inline_threshold_rows=threshold)
    replica, early = Replica(lab, name), Replica(lab, name)
    assert lab.rows(f"SELECT key_columns FROM pgtrickle.outbox_schema('{name}')") == [(key,)]
    for number in range(12):
        _write(lab, draw, number)
        full = number % 5 == 4
        report = lab.trickle.refresh_stream_table(name, full=full)
        changes = replica.follow()
        replica.check()
        gone = sum(one.before is not None for one in changes)
        come = sum(one.after is not None for one in changes)
        assert (gone, come) == (report.rows_deleted, report.rows_inserted)
        assert all((one.key is None) == (key is None) for one in changes)
    early.follow()
    early.check()
    [status] = lab.trickle.outbox.outbox_status(name)
    assert (status.last_id, status.entries) == (early.last_id, early.last_id)


def test_a_key_that_stays_is_updated_and_one_that_changes_is_deleted(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.create("keyed", "SELECT id, v FROM t WHERE id < 5")
    lab.trickle.outbox.enable_outbox("keyed")
    lab.run(
        "UPDATE t SET v = 100 WHERE id = 1",
        "UPDATE t SET id = -2 WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
    )
    lab.trickle.refresh_stream_table("keyed")

    found = [
        (one.op, one.key, one.before, one.after) for one in lab.trickle.outbox.outbox_rows("keyed")
    ]
    assert sorted(found[:2], key=str) == [
        ("delete", {"id": 2}, {"id": 2, "v": 2}, None),
        ("delete", {"id": 3}, {"id": 3, "v": 3}, None),
    ]
    assert found[2:] == [
        ("update", {"id": 1}, {"id": 1, "v": 1}, {"id": 1, "v": 100}),
        ("insert", {"id": -2}, None, {"id": -2, "v": 2}),
    ]


def test_every_type_can_be_read_back(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE DOMAIN small AS int CHECK (VALUE < 100)",
        "CREATE TABLE t (id int PRIMARY KEY, a numeric, b float8, c float4, d text, e char(4),"
        " f jsonb, g json, h int[], i bytea, j interval, k timestamptz, l tstzrange, m mood,"
        ' n uuid, o boolean, p date, q numeric[], r small, s "char", u time, "We ird""x %s" int)',
        "INSERT INTO t (id) VALUES (0)",
    )
    columns = 'id, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, "We ird""x %s"'
    lab.trickle.create_stream_table("every", f"SELECT {columns} FROM t")
    database = lab.value("SELECT current_database()")
    lab.run(f"ALTER DATABASE {database} SET datestyle = 'SQL, DMY'")
    lab.run(f"ALTER DATABASE {database} SET intervalstyle = 'iso_8601'")
    lab.run(f"ALTER DATABASE {database} SET extra_float_digits = -10")
    lab.reconnect()
    try:
        lab.trickle.outbox.enable_outbox("every")
        replica = Replica(lab, "every")
        lab.run(
            "INSERT INTO t VALUES (1, 1.500, 0.1::float8 + 0.2, 1e-40, E'\\u20ac\"\\n', 'x',"
            """ '{"a": null}', '{"b":  1, "b": 2}', '[2:3]={1,NULL}', '\\xdeadbeef',"""
            " '1 year 2 days 03:04:05.678', '2026-01-31 10:00:00.123456+02',"
            " '[2026-01-31 10:00+00,)', 'glad', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', true,"
            " '0044-03-15 BC', '{1.0,1.00,NaN}', 7, 'y', '10:11:12.131415', 9)",
            "INSERT INTO t VALUES (2, 'NaN', '-0', '-Infinity', '', '', 'null', 'null', '{}', '',"
            " '-1 mon', 'infinity', 'empty', NULL, NULL, false, '-infinity', '{{1,2},{3,4}}', NULL,"
            " '', '24:00', NULL)",
            "INSERT INTO t VALUES (3, 1e-100, 1e300, 16777217, 'null', 'abcd', '\"s\"', '[ ]')",
            "UPDATE t SET a = 1.50 WHERE id = 1",
        )
        lab.trickle.refresh_stream_table("every")
        replica.follow()
        replica.check()
    finally:
        for name in ("datestyle", "intervalstyle", "extra_float_digits"):
            lab.run(f"ALTER DATABASE {database} RESET {name}")
        lab.reconnect()


def test_a_table_filled_from_empty_is_all_inserts(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.trickle.create_stream_table("groups", QUERIES["groups"][0], initialize=False)
    lab.trickle.outbox.enable_outbox("groups")
    replica = Replica(lab, "groups")
    lab.trickle.refresh_stream_table("groups")
    assert {one.op for one in replica.follow()} == {"insert"}
    replica.check()


def test_columns_that_change_begin_anew(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.create("one", "SELECT id, v FROM t")
    lab.trickle.outbox.enable_outbox("one")
    replica = Replica(lab, "one")
    lab.trickle.alter_stream_table("one", query="SELECT id, v FROM t WHERE id > 3")
    assert {one.op for one in replica.follow()} == {"delete"}  # the same columns: the difference
    lab.trickle.alter_stream_table("one", query="SELECT id, v, note FROM t WHERE id > 5")
    assert {one.op for one in replica.follow()} == {"insert"}
    replica.check()
    versions = lab.rows("SELECT schema_version, columns FROM pgtrickle.outbox_schema('one')")
    assert [[one["name"] for one in columns] for _, columns in versions] == [
        ["id", "v"],
        ["id", "v", "note"],
    ]
    lab.run("UPDATE t SET note = 'again' WHERE id = 7")
    lab.trickle.refresh_stream_table("one")
    assert [one.op for one in replica.follow()] == ["update"]
    replica.check()


def test_renamed_snapshotted_and_restored_stream_tables_keep_their_outbox(
    postgres_lab: Lab,
) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.create("one", QUERIES["groups"][0])
    lab.trickle.outbox.enable_outbox("one")
    replica = Replica(lab, "one")
    taken = lab.trickle.snapshots.snapshot_stream_table("one")
    lab.run("DELETE FROM t WHERE id % 2 = 0")
    lab.trickle.refresh_stream_table("one")
    replica.follow()
    replica.check()
    lab.trickle.snapshots.restore_from_snapshot("one", str(taken))
    replica.follow()
    replica.check()
    lab.trickle.rename_stream_table("one", "two")
    replica.name = "two"
    lab.trickle.refresh_stream_table("two")
    assert replica.follow()
    replica.check()


def test_an_outbox_that_is_enabled_again_goes_on_counting(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.create("one", QUERIES["groups"][0])
    outbox = lab.trickle.outbox
    outbox.enable_outbox("one")
    lab.run("DELETE FROM t WHERE id = 1")
    lab.trickle.refresh_stream_table("one")
    assert outbox.outbox_position("one").last_id == 1
    assert outbox.disable_outbox("one")
    assert not outbox.disable_outbox("one", if_exists=True)
    for refused in (outbox.outbox_rows, outbox.outbox_position, outbox.disable_outbox):
        with pytest.raises(OutboxMissingError):
            refused("one")
    lab.run("DELETE FROM t WHERE id = 2")
    lab.trickle.refresh_stream_table("one")
    outbox.enable_outbox("one")
    assert outbox.outbox_rows("one") == []
    for missed in (1, 2):  # the second is what a consumer of the first asks for
        with pytest.raises(ChangesGoneError):
            outbox.outbox_rows("one", missed)
    replica = Replica(lab, "one")
    lab.run("DELETE FROM t WHERE id = 3")
    lab.trickle.refresh_stream_table("one")
    assert {one.outbox_id for one in replica.follow()} == {3}
    replica.check()
    with pytest.raises(ChangesGoneError):
        outbox.outbox_rows("one", 5)


def test_bad_options_are_refused(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.create("one", QUERIES["groups"][0])
    with pytest.raises(SettingError):
        lab.trickle.outbox.enable_outbox("one", retention_hours=-1)
    with pytest.raises(SettingError):
        lab.trickle.outbox.enable_outbox("one", inline_threshold_rows=2_000_000)


def test_a_refresh_that_fails_leaves_no_entry(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.create("one", QUERIES["groups"][0])
    lab.trickle.outbox.enable_outbox("one")
    replica = Replica(lab, "one")
    lab.run(
        "ALTER TABLE one ADD CONSTRAINT few CHECK (n < 7)",
        "UPDATE t SET k = 1",
    )
    with pytest.raises(TrickleError):
        lab.trickle.refresh_stream_table("one")
    assert replica.follow() == []
    lab.run("ALTER TABLE one DROP CONSTRAINT few")
    lab.trickle.refresh_stream_table("one")
    assert {one.outbox_id for one in replica.follow()} == {1}
    replica.check()


def test_rows_can_be_read_page_by_page(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.create("keyed", QUERIES["keyed"][0])
    for threshold in (10_000, 0):
        lab.trickle.outbox.enable_outbox("keyed", inline_threshold_rows=threshold)
        lab.run("UPDATE t SET v = v + 1")
        lab.trickle.refresh_stream_table("keyed")
    whole = [(one.outbox_id, one.row_number) for one in lab.trickle.outbox.outbox_rows("keyed")]
    paged: list[tuple[int, int]] = []
    while True:
        last = paged[-1] if paged else (1, 0)
        page = lab.trickle.outbox.outbox_rows("keyed", last[0], after_row=last[1], max_rows=7)
        paged += [(one.outbox_id, one.row_number) for one in page]
        if len(page) < 7:
            break
    assert paged == whole
    assert [outbox_id for outbox_id, number in whole if number == 1] == [1, 2]


def test_nobody_else_reads_the_changes(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.create("one", QUERIES["groups"][0])
    lab.trickle.outbox.enable_outbox("one")
    with pytest.raises(psycopg.Error):
        lab.run("INSERT INTO pgtrickle.pgt_outbox_rows VALUES (1, 1, 1, NULL, NULL)")
