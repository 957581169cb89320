"""A stream table in the hand: its rows as Arrow and pandas."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from pgtrickle.errors import StreamTableNotFoundError, ValueOutOfRangeError
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab

TYPES = """
    CREATE TABLE t (i int, b bigint, n numeric(10, 2), u numeric, f float8, x text, o boolean,
                    d date, z timestamptz, p timestamp, j jsonb, a int[], q uuid, y bytea)
"""
ONE = """
    INSERT INTO t VALUES (1, 2, 3.50, 4.125, 0.5, 'é', true, '2026-01-02', '2026-01-02 03:04:05+00',
                          '2026-01-02 03:04:05', '{"k": 1}', '{1,2}',
                          '00000000-0000-0000-0000-000000000001', '\\x00ff')
"""
NULLS = "INSERT INTO t (i) VALUES (NULL)"


@pytest.fixture
def all_types(lab: Lab) -> Lab:
    lab.run(TYPES, ONE, NULLS)
    lab.create("s", "SELECT * FROM t")
    return lab


def test_every_type_comes_exactly_and_null_as_null(all_types: Lab):
    found = all_types.trickle.table("s").to_arrow()

    [row, nothing] = sorted(found.to_pylist(), key=lambda one: one["i"] is None)
    assert row == {
        "i": 1,
        "b": 2,
        "n": Decimal("3.50"),
        "u": Decimal("4.125"),
        "f": 0.5,
        "x": "é",
        "o": True,
        "d": date(2026, 1, 2),
        "z": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "p": datetime(2026, 1, 2, 3, 4, 5),
        "j": '{"k": 1}',
        "a": "{1,2}",
        "q": "00000000-0000-0000-0000-000000000001",
        "y": "\\x00ff",
    }
    assert set(nothing.values()) == {None}


def test_empty_stream_table_has_its_columns(lab: Lab):
    lab.run("CREATE TABLE t (a int, n numeric)")
    lab.create("s", "SELECT a, n FROM t")

    found = lab.trickle.table("s").to_arrow()

    assert (found.num_rows, found.column_names) == (0, ["a", "n"])
    assert found.schema.field("a").type == pa.int32()


def test_names_are_written_as_in_a_query(lab: Lab):
    lab.run('CREATE SCHEMA "My Shop"', "CREATE TABLE t (a int)", "INSERT INTO t VALUES (7)")
    name = '"My Shop"."Daily ""Sales"""'
    lab.create(name, 'SELECT a AS "a ""column"" {ctid range}" FROM t')

    table = lab.trickle.table(name)

    assert table.to_arrow().to_pylist() == [{'a "column" {ctid range}': 7}]
    assert table.info().name == table.name
    with pytest.raises(StreamTableNotFoundError):
        lab.trickle.table("Daily")


def test_large_table_comes_in_batches_of_one_moment(lab: Lab):
    lab.run("CREATE TABLE t (a int, b text)")
    lab.run("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 60000) AS n")
    lab.create("s", "SELECT a, b FROM t")

    batches = lab.trickle.table("s").to_batches()
    first = next(batches)
    lab.window("DELETE FROM t WHERE a > 100")
    rest = list(batches)

    assert len(rest) > 1
    assert first.num_rows + sum(one.num_rows for one in rest) == 60000
    assert lab.trickle.table("s").to_arrow().num_rows == 100


def test_batches_that_are_left_alone_keep_no_transaction_open(lab: Lab):
    lab.run("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 10)")
    lab.create("s", "SELECT a FROM t")

    batches = lab.trickle.table("s").to_batches()
    next(batches)
    batches.close()  # type: ignore[attr-defined]  # a generator

    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    # The server notices a moment later that its client has gone.
    await_(lambda: lab.value(f"{open_ones} AND state = 'idle in transaction'") == 0)


@pytest.mark.parametrize(
    ("value", "column"),
    [("'NaN'::numeric", "n"), ("'infinity'::date", "d"), ("'infinity'::timestamptz", "z")],
)
def test_what_cannot_be_held_is_refused_by_the_name_of_its_column(
    lab: Lab, value: str, column: str
):
    lab.run("CREATE TABLE t (k int, n numeric, d date, z timestamptz)")
    lab.run(f"INSERT INTO t (k, {column}) VALUES (1, {value})")
    lab.create("s", "SELECT k, n, d, z FROM t")

    with pytest.raises(ValueOutOfRangeError, match=f'"(public.s.)?{column}"'):
        lab.trickle.table("s").to_arrow()


def test_pandas_gets_the_same_rows(all_types: Lab):
    found = all_types.trickle.table("s").to_pandas()

    assert len(found) == 2
    assert Decimal("3.50") in list(found["n"])


def test_handle_refreshes_verifies_explains_and_remembers(lab: Lab):
    lab.run("CREATE TABLE t (a int)")
    lab.create("s", "SELECT a FROM t")
    lab.run("INSERT INTO t VALUES (1)")
    table = lab.trickle.table("s")

    assert table.refresh().rows_inserted == 1
    assert table.verify().ok
    assert table.refresh(full=True).action.value == "FULL"
    assert len(table.history(limit=2)) == 2
    assert "public.t" in table.explain()
    assert repr(table) == "<stream table public.s>"
