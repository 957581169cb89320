"""The version of a source that cannot be read as it is, made from its rows and its changes.

In memory it is made here: to the engine it is then a relation like any other, where a UNION ALL at
each place of the plan would cost it more time than the rows themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.model.names import quote_identifier
from pgtrickle.refresh.stages import StagePlan
from pgtrickle.sql.emit import WEIGHT, OtherVersion, substitute
from pgtrickle.sql.translate import Dialect


def add_versions(
    stage: StagePlan, tables: Mapping[str, pa.Table], dialect: Dialect
) -> tuple[str, dict[str, pa.Table]]:
    """Return a stage's query and its inputs, the other versions among them."""
    inputs = dict(tables)
    unlike = []
    for one in stage.versions:
        rows, changes = _weighted(one, tables[one.rows]), _signed(one, tables[one.changes])
        if rows.schema.equals(changes.schema):
            inputs[one.view] = pa.concat_tables([rows, changes])
        else:  # decimals of other sizes, which the engine brings together
            unlike.append(one)
    named = stage.named.union(*({one.rows, one.changes} for one in unlike))
    sql = write_versions(stage.sql, unlike, dialect)
    return sql, {view: table for view, table in inputs.items() if view in named}


def write_versions(sql: str, versions: Sequence[OtherVersion], dialect: Dialect) -> str:
    """Let the engine compute other versions, where it has the rows and the driver has not."""
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
