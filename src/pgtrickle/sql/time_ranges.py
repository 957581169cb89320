"""Conditions on the current time whose answer changes only for a range of values.

If ``e`` depends on a row and ``f`` on the time alone, then ``e > f(now)`` has one answer at the
time N0 and another at N1 only if ``e`` lies between ``f(N0)`` and ``f(N1)``: otherwise it is on the
same side of both. That holds for every comparison in a total order and for every ``f``, also for
one that steps back, as local time does in autumn. A condition that is made of such comparisons,
and reads the time nowhere else, keeps its answer if all of them do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from pgtrickle.algebra.nodes import Scalar
from pgtrickle.sql.scalars import parse_scalar
from pgtrickle.sql.text.current_time import AFTER_MARK, BEFORE_MARK, count_times, mark_times

_COMPARISONS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ)
# Of a time that is not NULL these make a value that is not NULL, so that both ends of a range are
# there: LEAST and GREATEST pass over NULLs.
_NEVER_NULL = (
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.Localtimestamp,
    exp.Localtime,
    exp.Literal,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Var,
    exp.Paren,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.AtTimeZone,
    exp.TimestampTrunc,
    exp.Extract,
)
_NEVER_NULL_FUNCTIONS = frozenset(
    {
        "transaction_timestamp",
        "statement_timestamp",
        "date_trunc",
        "timezone",
        "date_bin",
        "to_char",
    }
)
# Of a later time these make a value that is not earlier.
_ADVANCING = (
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.Localtimestamp,
    exp.Literal,
    exp.Cast,
    exp.DataType,
    exp.Paren,
    exp.Add,
    exp.Sub,
    exp.TimestampTrunc,
)
# What depends on the time zone: local times, dates and intervals of days; local time can step back.
_LOCAL = re.compile(r"(?i)CURRENT_DATE|LOCAL|TRUNC|day|mon|year|AS (DATE|TIMESTAMP)\b")
_GUARDS = (exp.Case, exp.Coalesce)


class Turn(Enum):
    """When a comparison changes, as the moment advances towards the value of the row."""

    REACHED = "the moment is not earlier than the value"
    PASSED = "the moment is later than the value"
    BOTH = "at both times, as an equality does"


# By the comparison, with the value of the row on its left.
_TURNS = {
    exp.GT: Turn.REACHED,
    exp.LTE: Turn.REACHED,
    exp.GTE: Turn.PASSED,
    exp.LT: Turn.PASSED,
    exp.EQ: Turn.BOTH,
    exp.NEQ: Turn.BOTH,
}
_MIRRORED = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE}


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A comparison of ``expression``, which depends on the row, with ``moment``, on the time."""

    expression: str
    column: str | None  # which the expression is, if it is one
    moment: str
    turn: Turn
    advances: bool = False  # the moment never steps back, at least in UTC
    absolute: bool = False  # nor in any other time zone

    @property
    def condition(self) -> str:
        """The condition under which the comparison can have changed."""
        before, after = (mark_times(self.moment, one) for one in (BEFORE_MARK, AFTER_MARK))
        return (
            f"({self.expression}) BETWEEN LEAST({before}, {after}) AND GREATEST({before}, {after})"
        )

    def __str__(self) -> str:
        return f"{self.expression} between the values of {self.moment}"


def reads_time(scalar: Scalar | None) -> bool:
    """Tell whether an expression depends on the current time."""
    return scalar is not None and count_times(scalar.sql) > 0


def time_ranges(scalar: Scalar) -> tuple[TimeRange, ...] | None:
    """Return the ranges outside which an expression keeps its value; None if they are not known.

    >>> [str(one) for one in time_ranges(Scalar('"ts" > CURRENT_TIMESTAMP OR "x" = 1'))]
    ['"ts" between the values of CURRENT_TIMESTAMP']
    >>> time_ranges(Scalar('CURRENT_TIMESTAMP - "ts" > "limit"'))
    """
    found = list(_ranges(parse_scalar(scalar.sql)))
    if sum(count_times(one.moment) for one in found) != count_times(scalar.sql):
        return None
    return tuple(dict.fromkeys(found))


def _ranges(tree: exp.Expr) -> Iterator[TimeRange]:
    for node in tree.find_all(*_COMPARISONS):
        for moment, expression in ((node.this, node.expression), (node.expression, node.this)):
            if _is_moment(moment) and _is_of_row(expression):
                kind = type(node)
                turn = _TURNS[_MIRRORED.get(kind, kind) if moment is node.this else kind]
                yield _range(expression.unnest(), moment.unnest(), turn)


def _range(expression: exp.Expr, moment: exp.Expr, turn: Turn) -> TimeRange:
    column = expression.name if isinstance(expression, exp.Column) else None
    texts = [one.sql(dialect="postgres", comments=False) for one in (expression, moment)]
    advances = all(isinstance(node, _ADVANCING) for node in moment.walk()) and not any(
        count_times(node.expression.sql(dialect="postgres")) for node in moment.find_all(exp.Sub)
    )
    absolute = not _LOCAL.search(texts[1])
    return TimeRange(texts[0], column, texts[1], turn, advances, advances and absolute)


def _is_moment(side: exp.Expr) -> bool:
    """Tell whether a side of a comparison is a value that depends on the time alone."""
    return count_times(side.sql(dialect="postgres")) > 0 and all(
        isinstance(node, _NEVER_NULL)
        or (isinstance(node, exp.Anonymous) and node.name.lower() in _NEVER_NULL_FUNCTIONS)
        for node in side.walk()
    )


def _is_of_row(side: exp.Expr) -> bool:
    """Tell whether a side can be evaluated for any row, and does not depend on the time."""
    if side.find(exp.Column) is None or count_times(side.sql(dialect="postgres")):
        return False
    above, guarded = side.parent, False
    while above is not None:
        guarded = guarded or isinstance(above, _GUARDS)
        above = above.parent
    return isinstance(side.unnest(), exp.Column) or not guarded
