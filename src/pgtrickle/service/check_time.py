"""Check that the current time stands only where its passing can be followed.

That is in the filters and computed columns of scans. Anywhere else a value would change in every
row, or for rows that no range of one table finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Project,
    Recompute,
    Scalar,
    Scan,
    UnionAll,
    Weigh,
)
from pgtrickle.algebra.schema import children_of, scans_of
from pgtrickle.delta.cut import AggregateStage, RecomputeStage, StagedQuery
from pgtrickle.delta.moving_scan import is_moving, shows_time
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.text.current_time import count_times
from pgtrickle.sql.time_ranges import reads_time

_TIME_WORDS = (
    "now",
    "current_date",
    "current_timestamp",
    "current_time",
    "localtimestamp",
    "localtime",
    "transaction_timestamp",
    "statement_timestamp",
    "age",
    "current_user",
    "session_user",
    "current_role",
    "user",
    "current_catalog",
    "current_schema",
)
_IN_COLUMN = "in a column of the result or of a subquery"
_ACROSS = "in a condition over several tables or over an aggregate"


def time_refusal(where: str) -> Refusal:
    """Return the refusal of the current time at a place."""
    return Refusal(
        f"a function of the current time {where}",
        *_TIME_WORDS,
        hint="Rows would have to change or leave as time passes. Compare the time with a column of"
        " one table, as in WHERE ts > now() - interval '7 days', use refresh_mode = 'FULL' or"
        " 'AUTO', or keep the time in a table.",
    )


def refuse_time(staged: StagedQuery) -> None:
    """Raise a refusal if the current time stands where its passing cannot be followed."""
    if not any(is_moving(scan) for stage in staged.stages for scan in scans_of(stage.body)):
        raise time_refusal(_IN_COLUMN)
    for stage in staged.stages:
        for where in _places(stage.body):
            raise time_refusal(where)
        if isinstance(stage, RecomputeStage):
            texts = [stage.operator.sql, stage.operator.growth]
        elif isinstance(stage, AggregateStage):
            results = stage.layout.results
            texts = [one.sql for one in results]
            texts += [one.lookup.sql for one in results if one.lookup is not None]
        else:
            texts = [output.scalar.sql for output in stage.outputs]
        if any(map(count_times, texts)):
            raise time_refusal(_IN_COLUMN)


def _places(node: Node) -> Iterator[str]:
    """Yield the places of a plan at which the current time cannot be followed."""
    match node:
        case Scan():
            if any(map(shows_time, node.outputs)):
                yield _IN_COLUMN
            if not is_moving(node) and any(map(reads_time, _scalars(node))):
                yield _ACROSS
        case Filter():
            yield from _across(node.predicate)
        case InnerJoin():
            yield from _across(node.on)
        case Weigh():
            yield from _across(node.factor)
        case Project():
            if any(reads_time(output.scalar) for output in node.outputs):
                yield _IN_COLUMN
        case UnionAll() | Aggregate() | Recompute():
            pass
        case _:
            assert_never(node)
    for child in children_of(node):
        yield from _places(child)


def _across(scalar: Scalar | None) -> Iterator[str]:
    if reads_time(scalar):
        yield _ACROSS


def _scalars(scan: Scan) -> list[Scalar]:
    outputs = [output.scalar for output in scan.outputs]
    return outputs if scan.predicate is None else [scan.predicate, *outputs]
