"""Both versions of a source in one relation, made of rows that were read and of changes."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

from pgtrickle.algebra.nodes import InnerJoin, Node, Scalar, Scan, Source, SourceKind
from pgtrickle.delta.cut import RowsStage
from pgtrickle.delta.narrow import is_narrow
from pgtrickle.model.sql_type import INTEGER, Column, SqlType
from pgtrickle.plan.stages import Known, StagePlan, plan_stage
from pgtrickle.service.refreshing.stages.source_versions import add_versions
from pgtrickle.sql.scalars import pass_on
from pgtrickle.sql.translate import Dialect

NUMERIC = SqlType("numeric", "numeric", "N")


def _scan(kind: SourceKind, name: str, *columns: Column) -> Scan:
    return Scan(Source(kind, name), name, tuple(map(pass_on, columns)))


def _plan(kind: SourceKind = SourceKind.TABLE, *, narrow: bool = True) -> StagePlan:
    """Plan ``o JOIN c ON cid = id`` for changes of both."""
    o = _scan(kind, "o", Column("cid", INTEGER), Column("price", NUMERIC))
    c = _scan(kind, "c", Column("id", INTEGER))
    join = InnerJoin(o, c, Scalar("cid = id", ("cid", "id")))
    known = Known(keys=lambda scan: [frozenset({"id"})] if narrow and scan.alias == "c" else [])
    stage = RowsStage("result", join, (pass_on(Column("price", NUMERIC)),))
    plan = plan_stage(stage, ["o", "c"], Dialect.DUCKDB, str, known)
    assert plan is not None
    return plan


def _inputs() -> dict[str, pa.Table]:
    """Return inputs: of o the order of customer 1 was read, which is new, and not that of 7."""
    weight = pa.int32()
    return {
        "o__rows": _orders([(1, "9.5"), (1, "2.5")], pa.decimal128(3, 1)),
        "o__changes": _orders(
            [(1, "2.5"), (1, "4.5"), (7, "3.25"), (8, "1.25")], pa.decimal128(5, 2)
        ).append_column("__weight", pa.array([1, -1, 1, -1], weight)),
        "c__rows": pa.table({"id": pa.array([1, 7], pa.int32())}),
        "c__changes": pa.table(
            {"id": pa.array([1], pa.int32()), "__weight": pa.array([1], weight)}
        ),
    }


def _orders(rows: list[tuple[int, str]], price: pa.DataType) -> pa.Table:
    return pa.table(
        {
            "cid": pa.array([cid for cid, _ in rows], pa.int32()),
            "price": pa.array([Decimal(one) for _, one in rows]).cast(price),
        }
    )


def _weights(table: pa.Table) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Add up the weights of equal rows."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in table.to_pylist():
        before, after = row.pop("__before"), row.pop("__after")
        key = tuple(row.values())
        old = found.get(key, (0, 0))
        found[key] = (old[0] + before, old[1] + after)
    return found


def test_a_change_counts_once_whether_its_row_was_read_or_not():
    sql, inputs = add_versions(_plan(), _inputs(), Dialect.DUCKDB)

    assert set(inputs) == {"o__both", "c__both"}
    assert sql.count("JOIN") == 1
    assert _weights(inputs["o__both"]) == {
        (1, Decimal("9.50")): (1, 1),  # stands
        (1, Decimal("2.50")): (0, 1),  # came, and was read
        (1, Decimal("4.50")): (1, 0),  # went
        (7, Decimal("3.25")): (0, 1),  # came, and was not read: no key of c asked for it
        (8, Decimal("1.25")): (1, 0),
    }
    assert inputs["o__both"].schema.field("price").type == pa.decimal128(5, 2)


def test_rows_of_a_state_stand_before():
    inputs = _inputs()
    inputs["o__rows"] = _orders([(1, "9.5"), (1, "4.5")], pa.decimal128(3, 1))

    _, made = add_versions(_plan(SourceKind.STATE), inputs, Dialect.DUCKDB)

    assert _weights(made["o__both"]) == {
        (1, Decimal("9.50")): (1, 1),
        (1, Decimal("2.50")): (0, 1),
        (1, Decimal("4.50")): (1, 0),  # went, and was read
        (7, Decimal("3.25")): (0, 1),
        (8, Decimal("1.25")): (1, 0),
    }


def test_where_many_meet_many_each_change_is_joined_by_itself():
    plan = _plan(narrow=False)

    assert plan.paired is None
    sql, _ = add_versions(plan, _inputs(), Dialect.DUCKDB)
    assert sql.count("JOIN") == 2


def test_decimals_that_none_can_hold_are_left_to_the_engine():
    inputs = _inputs()
    huge = _orders([(1, "1")], pa.decimal128(38, 0))
    inputs["o__rows"] = huge

    sql, made = add_versions(_plan(), inputs, Dialect.DUCKDB)

    assert sql.count("UNION ALL") == 2
    assert made["o__rows"] is huge


def test_each_source_of_a_chain_is_asked_for_its_keys_once():
    asked: list[str] = []

    def keys(scan: Scan) -> list[frozenset[str]]:
        asked.append(scan.alias)
        return [frozenset({scan.alias})]

    names = [f"t{number}" for number in range(12)]
    scans = [_scan(SourceKind.TABLE, name, Column(name, INTEGER)) for name in names]
    chain: Node = scans[0]
    for last, scan in pairwise(scans):
        on = Scalar(f'"{last.alias}" = "{scan.alias}"', (last.alias, scan.alias))
        chain = InnerJoin(chain, scan, on)

    assert is_narrow(chain, keys)
    assert asked == names
