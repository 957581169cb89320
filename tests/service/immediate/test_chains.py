"""IMMEDIATE stream tables that read others, are read by others, and change their mode."""

from __future__ import annotations

import threading

import psycopg
import pytest

from pgtrickle.errors import TrickleError
from tests.labs.lab import Lab

_TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v int)",
    "INSERT INTO t SELECT n, n % 4, n FROM generate_series(1, 20) n",
)
_SUMS = "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k"
_STATEMENTS = (
    "INSERT INTO t VALUES (21, 1, 100), (22, 9, 1)",
    "UPDATE t SET v = v + 1 WHERE k = 2",
    "UPDATE t SET k = k + 1",
    "DELETE FROM t WHERE k = 3",
    "INSERT INTO t VALUES (1, 1, 1), (30, 2, 2) ON CONFLICT (id) DO UPDATE SET v = 77",
    "TRUNCATE t",
    "INSERT INTO t SELECT n, n % 3, n FROM generate_series(1, 9) n",
)


def check(lab: Lab, *names: str) -> None:
    for name in names or lab.queries:
        assert lab.differences(name) == [], name


def test_a_chain_and_a_diamond(lab: Lab) -> None:
    lab.run(*_TABLES)
    lab.create("sums", _SUMS, "IMMEDIATE")
    lab.create("large", "SELECT k, s FROM sums WHERE s > 30", "IMMEDIATE")
    lab.create("tops", "SELECT max(s) AS m, count(*) AS c FROM sums", "IMMEDIATE")
    lab.create("ends", "SELECT l.k, t.m, l.s FROM large l JOIN tops t ON l.s <= t.m", "IMMEDIATE")
    lab.create("rows_of", "SELECT t.id, s.s FROM t JOIN sums s ON s.k = t.k", "IMMEDIATE")
    for statement in _STATEMENTS:
        lab.run(statement)
        check(lab)
    lab.trickle.drop_stream_table("sums", cascade=True)
    assert lab.leftovers() == []


def test_modes_mixed(lab: Lab) -> None:
    lab.run(*_TABLES)
    lab.create("now_sums", _SUMS, "IMMEDIATE")
    lab.create("later", "SELECT t.id, s.s FROM t JOIN now_sums s ON s.k = t.k", "DIFFERENTIAL")
    lab.create("counts", "SELECT s, count(*) AS c FROM later GROUP BY s", "IMMEDIATE")
    lab.create("beyond", "SELECT c.c, l.id FROM counts c JOIN later l ON l.s = c.s", "DIFFERENTIAL")
    for statement in _STATEMENTS:
        lab.run(statement)
        check(lab, "now_sums", "counts")
        lab.trickle.refresh_stream_table("later")
        check(lab, "later", "counts")
        lab.trickle.refresh_stream_table("beyond")
        check(lab)
    for name in lab.queries:
        assert lab.trickle.verify_stream_table(name).ok


def test_verify_tells_what_is_wrong(lab: Lab) -> None:
    lab.run(*_TABLES)
    lab.create("sums", _SUMS, "IMMEDIATE")
    assert lab.trickle.verify_stream_table("sums").ok
    lab.run(
        "ALTER TABLE sums DISABLE TRIGGER ALL",
        "DELETE FROM sums WHERE k = 1",
        "ALTER TABLE sums ENABLE TRIGGER ALL",
    )
    found = lab.trickle.verify_stream_table("sums")
    assert not found.ok
    assert found.missing == 1
    report = lab.trickle.refresh_stream_table("sums")
    assert (report.action.value, report.rows_inserted, report.rows_deleted) == ("FULL", 1, 0)
    assert lab.trickle.verify_stream_table("sums").ok
    lab.run("INSERT INTO t VALUES (50, 1, 1)")
    check(lab)


def test_switching_both_ways(lab: Lab) -> None:
    lab.run(*_TABLES)
    lab.create("sums", _SUMS)
    for turn in range(3):
        lab.run(f"INSERT INTO t VALUES ({100 + turn}, 1, 5)")
        lab.trickle.alter_stream_table("sums", refresh_mode="IMMEDIATE")
        check(lab)
        assert lab.rows("SELECT source_relid FROM pgtrickle.pgt_change_tracking") == []
        lab.run(f"INSERT INTO t VALUES ({200 + turn}, 2, 5)", "UPDATE t SET v = v + 1")
        check(lab)
        lab.trickle.alter_stream_table("sums", refresh_mode="DIFFERENTIAL")
        assert lab.rows("SELECT pgt_id FROM pgtrickle.pgt_immediate") == []
        lab.run("DELETE FROM t WHERE id < 5", f"INSERT INTO t VALUES ({300 + turn}, 3, 5)")
        lab.refresh("sums")
    lab.trickle.alter_stream_table("sums", refresh_mode="IMMEDIATE")
    lab.trickle.alter_stream_table("sums", refresh_mode="AUTO")
    lab.run("INSERT INTO t VALUES (400, 3, 5)")
    lab.trickle.refresh_stream_table("sums")
    check(lab)


def test_the_query_is_replaced_in_place(lab: Lab) -> None:
    lab.run(*_TABLES)
    lab.create("sums", _SUMS, "IMMEDIATE")
    lab.create("reader", "SELECT k FROM sums WHERE n > 2", "IMMEDIATE")
    relid = lab.value("SELECT 'sums'::regclass::oid")
    for query in (
        "SELECT k, max(v)::bigint AS s, count(*) AS n FROM t GROUP BY k",
        "SELECT a.k, sum(b.v) AS s, count(*) AS n, min(a.id) AS low FROM t a"
        " JOIN t b ON a.id = b.k GROUP BY a.k",
        "SELECT k, v::bigint AS s, 5::bigint AS n FROM t",
    ):
        lab.trickle.alter_stream_table("sums", query=query)
        lab.queries["sums"] = query
        check(lab)
        for statement in _STATEMENTS[:4]:
            lab.run(statement)
        check(lab)
        lab.run(*_STATEMENTS[5:])
    assert lab.value("SELECT 'sums'::regclass::oid") == relid
    assert lab.value("SELECT bool_and(ready) FROM pgtrickle.immediate_status()")
    assert lab.rows("SELECT source_relid FROM pgtrickle.pgt_change_tracking") == []
    # What cannot be IMMEDIATE is refused, and what there is goes on.
    lab.run("CREATE TABLE parent (x int)", "CREATE TABLE child () INHERITS (parent)")
    with pytest.raises(TrickleError) as caught:
        lab.trickle.alter_stream_table("sums", query="SELECT x AS k FROM child")
    assert caught.value.code == "ST104"
    lab.run("INSERT INTO t VALUES (700, 1, 1)")
    check(lab)
    # Together with the mode, both ways.
    lab.trickle.alter_stream_table("sums", query=_SUMS, refresh_mode="DIFFERENTIAL")
    lab.queries["sums"] = _SUMS
    lab.run("INSERT INTO t VALUES (701, 1, 1)")
    lab.refresh("sums")
    query = "SELECT k, sum(v) + 1 AS s, count(*) AS n FROM t GROUP BY k"
    lab.trickle.alter_stream_table("sums", query=query, refresh_mode="IMMEDIATE")
    lab.queries["sums"] = query
    lab.run("INSERT INTO t VALUES (702, 1, 1)")
    check(lab)
    lab.trickle.drop_stream_table("sums", cascade=True)
    assert lab.leftovers() == []


def test_switching_while_others_write(lab: Lab) -> None:
    """No writer fails, not even by a deadlock: whoever switches gives way."""
    lab.run(*_TABLES, "CREATE TABLE other (k int, w int)", "INSERT INTO other VALUES (1, 1)")
    lab.create("sums", _SUMS)
    lab.create("pairs", "SELECT t.k, o.w FROM t JOIN other o ON o.w = t.v WHERE t.id < 9")
    stop, errors = threading.Event(), list[Exception]()
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = lab.value(deadlocks)  # other tests share the database

    def write(first: int) -> None:
        with psycopg.connect(lab.trickle.dsn, autocommit=True) as writer:
            number = first
            while not stop.is_set():
                number += 1
                try:
                    with writer.transaction():
                        if first == 2_000_000 and number % 5 == 0:
                            writer.execute("INSERT INTO other VALUES (%s, %s)", [number, number])
                        writer.execute("INSERT INTO t VALUES (%s, %s, 1)", [number, number % 5])
                except Exception as error:  # noqa: BLE001 - told by the test
                    errors.append(error)
                    return

    writers = [threading.Thread(target=write, args=(n * 1_000_000,)) for n in (1, 2)]
    for one in writers:
        one.start()
    try:
        for mode in ("IMMEDIATE", "DIFFERENTIAL") * 3:
            for name in lab.queries:
                lab.trickle.alter_stream_table(name, refresh_mode=mode)
                if mode == "IMMEDIATE":
                    check(lab, name)
    finally:
        stop.set()
        for one in writers:
            one.join()
    assert errors == []
    lab.value("SELECT pg_stat_clear_snapshot()::text")
    assert lab.value(deadlocks) == before
    for name in lab.queries:
        lab.trickle.refresh_stream_table(name)
    check(lab)


def test_the_scheduler_leaves_it_to_the_writers(lab: Lab) -> None:
    lab.run(*_TABLES)
    lab.create("sums", _SUMS, "IMMEDIATE")
    lab.trickle.alter_stream_table("sums", schedule="1s")
    lab.run("INSERT INTO t VALUES (500, 1, 1)")
    count = "SELECT count(*) FROM pgtrickle.pgt_refresh_history"
    before = lab.value(count)
    lab.trickle.run(once=True)
    assert lab.value(count) == before
    lab.run("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - interval '1 hour'")
    lab.trickle.run(once=True)
    assert lab.value(count) == before
    with lab.connection.transaction():
        lab.run("SET LOCAL pg_trickle.enabled = off", "INSERT INTO t VALUES (501, 1, 1)")
    assert lab.differences("sums") != []
    lab.trickle.run(once=True)
    check(lab)
    assert lab.value(count) == before + 1


def test_a_pause_stops_writers_until_it_ends(lab: Lab) -> None:
    lab.run(*_TABLES, "CREATE TABLE other (k int, w int)", "INSERT INTO other VALUES (1, 1)")
    lab.create("sums", _SUMS, "IMMEDIATE")
    lab.create("pairs", "SELECT t.id, o.w FROM t JOIN other o ON o.k = t.k", "IMMEDIATE")
    lab.create("later", _SUMS)
    assert lab.trickle.capture.pause_cdc("t") == ["public.t"]
    assert lab.trickle.capture.pause_cdc("t") == []
    assert lab.trickle.capture.pause_cdc() == ["public.other"]
    found = "SELECT name, reason FROM pgtrickle.immediate_status() WHERE NOT ready"
    assert lab.rows(found) == [
        ("public.pairs", 'the capture of "public.other" is paused'),
        ("public.sums", 'the capture of "public.t" is paused'),
    ]
    lab.run("INSERT INTO t VALUES (600, 1, 1)", "INSERT INTO other VALUES (1, 2)")
    assert all(lab.differences(name) for name in lab.queries)
    lab.trickle.alter_stream_table("sums", schedule="1s")
    lab.trickle.run(once=True)
    assert lab.differences("sums") != []
    # By hand it is computed anew, and writers still leave it alone.
    lab.trickle.refresh_stream_table("sums")
    lab.check("sums")
    lab.run("INSERT INTO t VALUES (601, 1, 1)")
    assert lab.differences("sums") != []
    with pytest.raises(TrickleError, match="is paused") as caught:
        lab.create("new", _SUMS, "IMMEDIATE")
    assert caught.value.code == "ST305"
    assert lab.value("SELECT to_regclass('new')") is None
    assert lab.trickle.capture.resume_cdc("t") == ["public.t"]
    for name in ("sums", "pairs", "later"):
        lab.trickle.refresh_stream_table(name)
    check(lab)
    lab.run("INSERT INTO t VALUES (602, 1, 1)")
    check(lab, "sums")
    assert lab.differences("pairs") != []
    assert lab.trickle.capture.resume_cdc() == ["public.other"]
    lab.trickle.refresh_stream_table("pairs")
    lab.run("INSERT INTO t VALUES (603, 1, 1)", "DELETE FROM other WHERE w = 1")
    check(lab, "sums", "pairs")
    lab.trickle.capture.pause_cdc("other")
    lab.trickle.drop_stream_table("pairs")
    assert lab.value("SELECT count(*) FROM pgtrickle.pgt_immediate_pauses") == 0


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT id, now() AS at FROM t", "ST102"),
        ("SELECT id, random() AS r FROM t", "ST103"),
        ("SELECT * FROM (SELECT 1) AS x, child", "ST104"),
    ],
)
def test_what_cannot_be_immediate_is_refused(lab: Lab, query: str, code: str) -> None:
    lab.run(*_TABLES, "CREATE TABLE parent (x int)", "CREATE TABLE child () INHERITS (parent)")
    with pytest.raises(TrickleError) as caught:
        lab.trickle.create_stream_table("refused", query, refresh_mode="IMMEDIATE")
    assert caught.value.code == code
    assert caught.value.hint
    assert lab.leftovers() == []
