"""Count the rows of two inputs per distinct row: the base of set operations and outer joins.

Both inputs go into one union that remembers where a row came from; an aggregate by the whole row
then knows how often it occurs on each side.  It is an ordinary aggregate, so it is maintained like
any other: a row enters or leaves when a count leaves or reaches zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pgtrickle.algebra.nodes import Aggregate, AggregateCall, Output, Project, Scalar, UnionAll
from pgtrickle.algebra.schema import columns_of
from pgtrickle.model.sql_type import BIGINT, BOOLEAN
from pgtrickle.sql.plan_columns import PlanColumns
from pgtrickle.sql.scalars import column_scalar, make_scalar, parse_scalar


@dataclass(frozen=True, slots=True)
class CountedSides:
    """An aggregate with one row for each distinct row of two inputs."""

    node: Aggregate
    left: str  # the column that counts the left input's rows
    right: str

    def rows(self, right: str) -> list[Scalar]:
        """Return the conditions for rows of the left whose count on the right is ``right``."""
        counts = (column_scalar(self.left).sql, column_scalar(self.right).sql)
        return [
            make_scalar(parse_scalar(f"{counts[0]} > 0")),
            make_scalar(parse_scalar(f"{counts[1]} {right}")),
        ]


def count_sides(
    columns: PlanColumns, left: Project, right: Project, *, shows_left: bool = False
) -> CountedSides:
    """Build the aggregate over two inputs that have the same column names.

    With ``shows_left``, a row looks as it does on the left: 0.5, although 0.50 is on the right.
    """
    marks = [columns.fresh(f"in_{side}") for side in ("left", "right")]
    children = tuple(
        replace(
            child,
            outputs=child.outputs
            + tuple(
                Output(mark, Scalar("TRUE" if number == own else "FALSE"), BOOLEAN)
                for number, mark in enumerate(marks)
            ),
        )
        for own, child in enumerate((left, right))
    )
    calls = tuple(_count(columns.fresh("count"), mark) for mark in marks)
    shown_by = marks[0] if shows_left else None
    node = Aggregate(UnionAll(children), columns_of(left), calls, shown_by)
    columns.remember(node)
    return CountedSides(node, calls[0].name, calls[1].name)


def _count(name: str, mark: str) -> AggregateCall:
    return AggregateCall(
        name, "count", "COUNT(*)", (), mark, whole=False, plain=True, distinct=False, type=BIGINT
    )
