"""Dates and timestamps: sums, differences, and the change from one to the other.

Infinite dates and timestamps travel as the ends of Spark's range (see ``transit/carriers.py``),
where sums would wrap around; so every computation with them checks for the infinities first. A
timestamp with time zone is used in computations only if the session's time zone has no effect.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from pgtrickle.sql.translate.dates.intervals import Interval
from pgtrickle.sql.translate.literals import (
    DATE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMPTZ_INFINITY,
)
from pgtrickle.sql.translate.term import Term, fail, let, let_both, refuse

INFINITIES = {
    "date": DATE_INFINITY,
    "timestamp": TIMESTAMP_INFINITY,
    "timestamptz": TIMESTAMPTZ_INFINITY,
}
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_042_905  # 4714-11-24 BC and 5874897-12-31
_LAST_TIMESTAMP_DAY = 106_751_990  # 294247-01-09, Spark's last whole day
_FIRST_MICROSECOND = _FIRST_DAY * 86_400_000_000
_LAST_MICROSECOND = 2**63 - 1
_LONGEST_INTERVAL = 2**62
_UNKNOWN_TO_SPARK = "Spark cannot compute with an infinite date or timestamp"


def is_infinite(value: str, base: str) -> str:
    """Write the condition that a moment is one of the infinities."""
    return f"{value} IN ({', '.join(INFINITIES[base].values())})"


def of_finite(term: Term, body: Callable[[str], str], infinite: str | None = None) -> str:
    """Compute with a moment that is finite.

    ``infinite`` is the text for the others; by default they are an error, because the answer
    (``Infinity`` as a numeric) does not exist in Spark.
    """

    def guarded(value: str) -> str:
        otherwise = fail(_UNKNOWN_TO_SPARK) if infinite is None else infinite.format(value)
        return (
            f"(CASE WHEN {is_infinite(value, term.base)} THEN {otherwise} ELSE {body(value)} END)"
        )

    return let(term, guarded)


def change(term: Term, target: str, body: Callable[[str], str]) -> Term:
    """Turn a moment into one of another type; infinities stay infinite."""

    def whole(value: str) -> str:
        cases = " ".join(
            f"WHEN {value} = {INFINITIES[term.base][sign]} THEN {INFINITIES[target][sign]}"
            for sign in ("infinity", "-infinity")
        )
        return f"(CASE {cases} ELSE {body(value)} END)"

    return Term(let(term, whole), target)


def as_timestamp(term: Term) -> Term:
    """Make a timestamp of a date; one that is out of range is an error on both sides."""
    if term.base != "date":
        return term

    def body(day: str) -> str:
        refused = fail("date out of range for timestamp")
        late = f"unix_date({day}) > {_LAST_TIMESTAMP_DAY}"
        return f"CASE WHEN {late} THEN {refused} ELSE CAST({day} AS TIMESTAMP_NTZ) END"

    return change(term, "timestamp", body)


def add_or_subtract(node: exp.Expr, left: Term, right: Term) -> Term:
    """Translate a sum or difference of which at least one side is a moment or an interval."""
    sign = -1 if isinstance(node, exp.Sub) else 1
    bases = (left.base, right.base)
    if sign > 0 and left.base in {"int4", "int2", "interval"}:
        left, right, bases = right, left, bases[::-1]
    if isinstance(node, exp.Mul):
        raise refuse(node)
    if bases == ("date", "date") and sign < 0:
        return _days_between(left, right)
    if left.base == "date" and right.base in {"int2", "int4"}:
        return _add_days(left, right, "-" if sign < 0 else "+")
    if left.base in INFINITIES and right.base == "interval" and right.literal is not None:
        return _add_interval(node, left, Interval.parse(node, right.literal).times(sign))
    raise refuse(node)


def _days_between(left: Term, right: Term) -> Term:
    def body(one: str, two: str) -> str:
        infinite = f"{is_infinite(one, 'date')} OR {is_infinite(two, 'date')}"
        refused = fail("cannot subtract infinite dates")
        both = f"{one} IS NOT NULL AND {two} IS NOT NULL"
        return f"(CASE WHEN {both} AND ({infinite}) THEN {refused} ELSE datediff({one}, {two}) END)"

    return Term(let_both(left, right, body), "int4")


def _add_days(date: Term, days: Term, symbol: str) -> Term:
    def body(one: str, two: str) -> str:
        number = f"CAST(unix_date({one}) AS BIGINT) {symbol} {two}"
        return (
            f"(CASE WHEN {is_infinite(one, 'date')} AND {two} IS NOT NULL THEN {one}"
            f" WHEN {number} NOT BETWEEN {_FIRST_DAY} AND {_LAST_DAY}"
            f" THEN {fail('date out of range')}"
            f" ELSE date_from_unix_date(CAST({number} AS INT)) END)"
        )

    return Term(let_both(date, days, body), "date")


def _add_interval(node: exp.Expr, moment: Term, interval: Interval) -> Term:
    """Add months first, which end with the month's last day at the latest, then days and time."""
    if moment.base == "timestamptz" and (interval.months or interval.days):
        raise refuse(node)  # a day of 23 or 25 hours is a matter of the session's time zone
    if abs(interval.longest) > _LONGEST_INTERVAL:
        raise refuse(node)
    moment = as_timestamp(moment)
    refused = fail("timestamp out of range")

    def check(value: str) -> str:
        first = _moment(_FIRST_MICROSECOND, moment.base)
        return f"(CASE WHEN {value} < {first} THEN {refused} ELSE {value} END)"

    def body(value: str) -> str:
        added = interval.added_to(value)
        if interval.longest < 0:
            return let(Term(added, moment.base), check, "__sum")
        last = _moment(_LAST_MICROSECOND - interval.longest, moment.base)
        return f"CASE WHEN {value} > {last} THEN {refused} ELSE {added} END"

    return Term(of_finite(moment, body, infinite="{0}"), moment.base)


def _moment(micros: int, base: str) -> str:
    moment = f"timestamp_micros({micros})"
    return f"CAST({moment} AS TIMESTAMP_NTZ)" if base == "timestamp" else moment


def microseconds_between(left: Term, right: Term) -> Term:
    """Return the time from ``right`` to ``left`` in microseconds."""

    def body(one: str, two: str) -> str:
        infinite = f"{is_infinite(one, left.base)} OR {is_infinite(two, right.base)}"
        return (
            f"(CASE WHEN {infinite} THEN {fail(_UNKNOWN_TO_SPARK)}"
            f" ELSE timestampdiff(MICROSECOND, {two}, {one}) END)"
        )

    return Term(let_both(left, right, body), "int8")
