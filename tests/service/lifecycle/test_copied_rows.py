"""What a restore may take for unchanged: rows that were there before the copy, and are as then."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.catalog.snapshots.copied import find_copied
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.model.table_snapshot import Copied
from pgtrickle.model.text.names import QualifiedName
from tests.labs.lab import Lab

_SUMS = QualifiedName("public", "shown")
_OLD = """
    SELECT count(*) FROM shown
     WHERE xidsend(xmin) < decode(lpad(to_hex(%s::int8), 8, '0'), 'hex')
"""


@pytest.fixture
def shop(postgres_lab: Lab) -> Lab:
    """Create a stream table, and a snapshot of it."""
    lab = postgres_lab
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 200) AS i",
    )
    lab.create("shown", "SELECT id, v FROM t")
    return lab


def copied(lab: Lab) -> Copied | None:
    [(snapshot,)] = lab.rows("SELECT snapshot_id FROM pgtrickle.pgt_snapshots")
    return find_copied(lab.connection, snapshot, get_stream_table(lab.connection, _SUMS))


def test_rows_before_the_copy_are_told_from_later_ones(shop: Lab):
    shop.trickle.snapshots.snapshot_stream_table("shown", "saved")
    found = copied(shop)
    assert found is not None
    assert found.rows == 200
    assert shop.rows("SELECT DISTINCT xmin::text FROM saved") == [(str(found.by),)]
    shop.window("UPDATE t SET v = v + 1 WHERE id <= 20", "INSERT INTO t VALUES (300, 1)")

    [(old,)] = shop.connection.execute(_OLD, [found.settled_before]).fetchall()

    assert old == 180


@pytest.mark.parametrize(
    "statement",
    [
        # Old rows have no value in a column that came later.
        "ALTER TABLE shown ADD COLUMN later int",
        # The numbers of another server's transactions, or of another epoch, mean nothing.
        "UPDATE pgtrickle.pgt_snapshots"
        " SET frontier = jsonb_set(frontier, '{pg,system_identifier}', '\"1\"')",
        "UPDATE pgtrickle.pgt_snapshots"
        " SET settled_before = (settled_before::text::int8 + 4294967296)::text::xid8",
        "UPDATE pgtrickle.pgt_snapshots SET copied_relid = 't'::regclass",
        "UPDATE pgtrickle.pgt_snapshots SET copied_by = NULL",
    ],
)
def test_copy_says_nothing_of_other_columns_tables_and_servers(shop: Lab, statement: str):
    shop.trickle.snapshots.snapshot_stream_table("shown", "saved")
    shop.run(statement)

    assert copied(shop) is None


def test_row_of_a_transaction_that_ended_after_the_copy_is_removed(shop: Lab):
    """It has an older number than the copy, which lacks it."""
    shop.run("ALTER TABLE shown DISABLE TRIGGER USER")
    with psycopg.connect(shop.connection.info.dsn) as other:
        other.execute("INSERT INTO shown VALUES (1000, 1)")
        shop.trickle.snapshots.snapshot_stream_table("shown", "saved")
    shop.run("DELETE FROM shown WHERE id = 7")  # there are as many rows as in the copy
    shop.run("ALTER TABLE shown ENABLE TRIGGER USER", "ANALYZE shown")

    shop.trickle.snapshots.restore_from_snapshot("shown", "saved")

    assert shop.rows("TABLE shown") == shop.rows("TABLE t")


def test_changed_rows_of_the_copy_are_seen(shop: Lab):
    shop.trickle.snapshots.snapshot_stream_table("shown", "saved")
    shop.run("ALTER TABLE saved DISABLE TRIGGER USER", "UPDATE saved SET v = -1 WHERE id = 5")
    shop.run("ANALYZE shown")

    shop.trickle.snapshots.restore_from_snapshot("shown", "saved")

    assert shop.rows("SELECT id FROM shown WHERE v = -1") == [(5,)]
