"""The version of a source that cannot be read directly, built from its rows and its changes.

Versions in memory are built here: to the engine such a version is a relation like any other, while
a UNION ALL at each place of the plan would cost more time than the rows themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.algebra.nodes import Version
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.plan.stages import BothVersions, PairPlan, StagePlan
from pgtrickle.sql.emit import WEIGHT, WEIGHT_AFTER, WEIGHT_BEFORE, OtherVersion, substitute
from pgtrickle.sql.translate import Dialect

_DIGITS = 38  # of the largest decimal


def add_versions(
    stage: StagePlan, tables: Mapping[str, pa.Table], dialect: Dialect
) -> tuple[str, dict[str, pa.Table]]:
    """Return a stage's query and its inputs, including the other versions."""
    if stage.paired is not None:
        both = _pairs(stage.paired, tables)
        if both is not None:
            return stage.paired.sql, both
    inputs = dict(tables)
    unlike = []
    for one in stage.versions:
        together = alike(one.columns, tables[one.rows], tables[one.changes])
        if together is None:  # the engine reports what is wrong with them
            unlike.append(one)
        else:
            rows, changes = together
            inputs[one.view] = pa.concat_tables([_weighted(one, rows), _signed(one, changes)])
    named = stage.named.union(*({one.rows, one.changes} for one in unlike))
    sql = write_versions(stage.sql, unlike, dialect)
    return sql, {view: table for view, table in inputs.items() if view in named}


def _pairs(plan: PairPlan, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table] | None:
    """Return the inputs of a stage that runs over both versions; None if their types differ."""
    inputs = {view: table for view, table in tables.items() if view in plan.named}
    for one in plan.versions:
        rows, changes = tables[one.rows] if one.rows else None, tables[one.changes]
        if rows is not None:
            together = alike(one.columns, rows, changes)
            if together is None:
                return None
            rows, changes = together
        parts = [_changed_rows(one, changes, rows)]
        if rows is not None:
            ones = pa.repeat(pa.scalar(1, pa.int32()), rows.num_rows)
            parts.append(_both(one, rows, ones, ones))
        inputs[one.view] = pa.concat_tables(parts)
    return inputs


def alike(
    columns: Sequence[str], rows: pa.Table, changes: pa.Table
) -> tuple[pa.Table, pa.Table] | None:
    """Give the columns of two tables the same types; None if no decimal holds both.

    The size of a decimal fits the values of its own read.
    """
    for name in columns:
        mine, theirs = rows[name].type, changes[name].type
        if mine == theirs:
            continue
        if not (pa.types.is_decimal(mine) and pa.types.is_decimal(theirs)):
            return None
        scale = max(mine.scale, theirs.scale)
        digits = max(mine.precision - mine.scale, theirs.precision - theirs.scale)
        if digits + scale > _DIGITS:
            return None
        common = pa.decimal128(digits + scale, scale)
        rows, changes = (_cast(table, name, common) for table in (rows, changes))
    return rows, changes


def _cast(table: pa.Table, name: str, type_: pa.DataType) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, table[name].cast(type_))


def _changed_rows(one: BothVersions, changes: pa.Table, rows: pa.Table | None) -> pa.Table:
    """Return the changes with both weights, given that the rows read count once in either.

    A change of a row that was read removes it from the version that was not read; a change of any
    other row adds it to the version that contained it.
    """
    weight = changes[WEIGHT].cast(pa.int32())
    zero = pa.scalar(0, pa.int32())
    went, read = pc.less(weight, zero), _occur(changes, rows, one.bounded_by)
    old = pc.or_(went, read) if one.stands_at is Version.AFTER else pc.and_not(went, read)
    before = pc.if_else(old, pc.negate(weight), zero)
    return _both(one, changes, before, pc.if_else(old, zero, weight))


def _occur(changes: pa.Table, rows: pa.Table | None, columns: Collection[str]) -> pa.ChunkedArray:
    """Return for each change whether its values of some columns occur among the rows.

    Only these columns bound the rows: if the values occur, the row itself was read.
    """
    if rows is None or not columns:
        return pa.chunked_array([pa.repeat(pa.scalar(rows is not None), changes.num_rows)])
    codes = [_codes(changes[name], rows[name]) for name in sorted(columns)]
    both = codes[0][0]
    for code, number in codes[1:]:
        both = pc.add_checked(pc.multiply_checked(both, number), code)
    return pa.chunked_array([pc.is_in(both[: changes.num_rows], both[changes.num_rows :])])


def _codes(changed: pa.ChunkedArray, known: pa.ChunkedArray) -> tuple[pa.Array, int]:
    """Give each value of a column in changes and rows a number; return how many there are."""
    values = pa.chunked_array([*changed.chunks, *known.chunks], changed.type)
    encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.cast(pa.int64()), len(encoded.dictionary)


def _both(one: BothVersions, table: pa.Table, before: pa.Array, after: pa.Array) -> pa.Table:
    return pa.table(
        [*(table[name] for name in one.columns), before, after],
        names=[*one.columns, WEIGHT_BEFORE, WEIGHT_AFTER],
    )


def write_versions(sql: str, versions: Sequence[OtherVersion], dialect: Dialect) -> str:
    """Let the engine compute other versions of inputs whose rows the driver does not have."""
    if not versions:
        return sql
    if dialect is not Dialect.SPARK:
        queries = ", ".join(f"{quote_identifier(one.view)} AS ({one.sql})" for one in versions)
        return f"WITH {queries} {sql}"
    return substitute(sql, {one.view: f"({one.sql})" for one in versions})


def _weighted(one: OtherVersion, rows: pa.Table) -> pa.Table:
    ones = pa.repeat(pa.scalar(1, pa.int32()), rows.num_rows)
    return pa.table([*(rows[name] for name in one.columns), ones], names=[*one.columns, WEIGHT])


def _signed(one: OtherVersion, changes: pa.Table) -> pa.Table:
    weight = changes[WEIGHT].cast(pa.int32())
    signed = pc.negate(weight) if one.sign < 0 else weight
    return pa.table(
        [*(changes[name] for name in one.columns), signed], names=[*one.columns, WEIGHT]
    )
