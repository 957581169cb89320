"""Capture from the log and what else a source can be or become: a tree, altered, polled.

What the log cannot follow stays with triggers, and the catalog says why.
"""

from __future__ import annotations

import pytest

from pgtrickle.errors import WalUnavailableError
from pgtrickle.service.capturing.mode import tend_capture
from tests.labs.lab import Lab
from tests.labs.wal_lab import T, create, modes, notes, triggers

PARTITIONED = (
    "CREATE TABLE p (id int, k int) PARTITION BY RANGE (id)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200)",
    "INSERT INTO p VALUES (1, 1), (101, 1)",
)
IN_A_TREE = "it is not an ordinary table, or part of a tree of tables"


@pytest.mark.parametrize("source", ["p", "p1"])
def test_tree_of_tables_stays_with_triggers_and_says_why(wal: Lab, source: str):
    wal.run(
        *PARTITIONED, *(f"ALTER TABLE {one} REPLICA IDENTITY FULL" for one in ("p", "p1", "p2"))
    )
    create(wal, "counts", f"SELECT k, count(*) AS n FROM {source} GROUP BY k", "auto")

    assert modes(wal) == {source: "TRIGGER"}
    assert notes(wal) == {source: IN_A_TREE}
    wal.window("INSERT INTO p VALUES (2, 2), (102, 2)", "UPDATE p1 SET k = 3 WHERE id = 1")
    with pytest.raises(WalUnavailableError, match="tree of tables"):
        wal.trickle.create_stream_table("other", f"SELECT id FROM {source}", cdc_mode="wal")


def test_table_that_gets_an_heir_goes_back_to_triggers(counted: Lab):
    counted.run(
        "INSERT INTO t VALUES (3, 2, 'in the log')",
        "CREATE TABLE heir () INHERITS (t)",
        "INSERT INTO heir VALUES (4, 2, 'not in the log')",
    )

    counted.window(action="REINITIALIZE")
    assert modes(counted) == {"t": "TRIGGER"}
    counted.window("INSERT INTO heir VALUES (5, 2, NULL)", "UPDATE t SET k = k + 1")
    tend(counted)
    assert notes(counted) == {"t": IN_A_TREE}
    counted.window("DELETE FROM heir WHERE id = 4")


def test_table_that_becomes_a_partition_goes_back_to_triggers(wal: Lab):
    wal.run(*T, "ALTER TABLE t DROP CONSTRAINT t_pkey")
    create(wal, "copy", "SELECT id, k FROM t")
    wal.run(
        "CREATE TABLE parent (id int, k int, note text) PARTITION BY RANGE (id)",
        "ALTER TABLE parent ATTACH PARTITION t FOR VALUES FROM (0) TO (100)",
        "INSERT INTO parent VALUES (3, 2, 'through the parent')",
    )

    wal.window(action="REINITIALIZE")
    assert modes(wal) == {"t": "TRIGGER"}
    wal.window("INSERT INTO parent VALUES (4, 2, NULL)", "DELETE FROM t WHERE id = 1")


def tend(lab: Lab) -> None:
    runtime = lab.trickle._runtime
    runtime.capture_tended = float("-inf")
    tend_capture(runtime)


def test_column_that_is_renamed_and_renamed_back_loses_no_value(counted: Lab):
    with counted.unwatched():
        counted.run(
            "ALTER TABLE t RENAME note TO remark",
            "INSERT INTO t VALUES (3, 2, 'under another name')",
            "UPDATE t SET remark = 'changed' WHERE id = 1",
        )
        tend(counted)  # reads the log while the column has that name
        counted.run("ALTER TABLE t RENAME remark TO note")

    counted.window(action="FULL")
    counted.window("INSERT INTO t VALUES (4, 2, 'as before')")


def test_column_made_wider_keeps_its_values(wal: Lab):
    wal.run("CREATE TABLE w (id int, v varchar(3), n numeric(4, 1), c char(4), b bit(3))")
    create(wal, "copy", "SELECT * FROM w")
    wal.window("INSERT INTO w VALUES (1, 'abc', 123.4, 'x', B'101')")
    create(wal, "ids", "SELECT id FROM w")
    relid = wal.value("SELECT 'w'::regclass::oid")

    wal.run("ALTER TABLE w ALTER v TYPE varchar(9)")
    wal.run("INSERT INTO w VALUES (2, 'abcdefghi', 1.0, 'xy', B'111')")

    wal.refresh("ids")
    assert wal.rows(f"SELECT v FROM pgtrickle_changes.changes_{relid} WHERE id = 2") == [
        ("abcdefghi",)
    ]
    assert modes(wal) == {"w": "WAL"}


def test_polled_source_beside_one_from_the_log(wal: Lab):
    wal.run(*T, "CREATE MATERIALIZED VIEW m AS SELECT 1 AS k, 'one' AS name")
    create(wal, "named", "SELECT t.id, m.name FROM t JOIN m ON m.k = t.k")

    assert modes(wal) == {"t": "WAL"}
    wal.window("INSERT INTO t VALUES (3, 1, NULL)")
    wal.window("INSERT INTO t VALUES (4, 1, NULL)", "REFRESH MATERIALIZED VIEW m")


def test_altered_table_keeps_its_way_of_capture(counted: Lab):
    counted.window("ALTER TABLE t ADD extra int", "INSERT INTO t VALUES (3, 1, 'c', 7)")
    counted.window("ALTER TABLE t DROP extra", "UPDATE t SET k = k + 1")

    assert (modes(counted), triggers(counted)) == ({"t": "WAL"}, 0)
