"""Parts of dates and timestamps: EXTRACT, date_trunc and AT TIME ZONE 'UTC'.

EXTRACT gives a numeric.  Years before Christ have no year zero in PostgreSQL; in Spark they do.
The parts of a timestamp with time zone depend on the session's time zone, except its epoch.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from pgtrickle.sql.translate.dates.moments import (
    as_timestamp,
    change,
    microseconds_between,
    of_finite,
)
from pgtrickle.sql.translate.term import MOMENTS, Rule, Term, Visit, refuse

_DATE_FIELDS: dict[str, Callable[[str], str]] = {
    "YEAR": lambda v: _without_year_zero(f"year({v})"),
    "ISOYEAR": lambda v: _without_year_zero(f"extract(YEAROFWEEK FROM {v})"),
    "QUARTER": lambda v: f"quarter({v})",
    "MONTH": lambda v: f"month({v})",
    "WEEK": lambda v: f"weekofyear({v})",
    "DAY": lambda v: f"day({v})",
    "DOW": lambda v: f"(dayofweek({v}) - 1)",
    "ISODOW": lambda v: f"(weekday({v}) + 1)",
    "DOY": lambda v: f"dayofyear({v})",
}
_TIME_FIELDS: dict[str, Callable[[str], str]] = {
    "HOUR": lambda v: f"hour({v})",
    "MINUTE": lambda v: f"minute({v})",
    "SECOND": lambda v: f"extract(SECOND FROM {v})",
    "MILLISECONDS": lambda v: f"(extract(SECOND FROM {v}) * 1000)",
    "MICROSECONDS": lambda v: f"(extract(SECOND FROM {v}) * 1000000)",
}
_SCALES = {"SECOND": 6, "MILLISECONDS": 3}
_UNITS = frozenset(
    [
        "microseconds",
        "milliseconds",
        "second",
        "minute",
        "hour",
        "day",
        "week",
        "month",
        "quarter",
        "year",
    ]
)
_SPARK_UNITS = {"microseconds": "MICROSECOND", "milliseconds": "MILLISECOND"}
_EPOCH = {
    "timestamp": "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
    "timestamptz": "timestamp_micros(0)",
}


def _extract(node: exp.Expr, visit: Visit) -> Term:
    if not isinstance(node.this, exp.Var):
        raise refuse(node)
    field, source = node.this.name.upper(), node.expression.unnest()
    if field == "EPOCH":
        return _epoch(node, source, visit)
    moment = visit(source)
    if moment.base not in {"date", "timestamp"}:
        raise refuse(node)
    fields = _DATE_FIELDS | (_TIME_FIELDS if moment.base == "timestamp" else {})
    if field not in fields:
        raise refuse(node)
    scale = _SCALES.get(field, 0)
    number = f"CAST({of_finite(moment, fields[field])} AS DECIMAL(18, {scale}))"
    return Term(number, "numeric", scale=scale, precision=18, shows_scale=True)


def _epoch(node: exp.Expr, source: exp.Expr, visit: Visit) -> Term:
    """Count seconds since 1970, or between two timestamps."""
    if isinstance(source, exp.Sub):
        left, right = visit(source.this), visit(source.expression)
        if left.base != right.base or left.base not in _EPOCH:
            raise refuse(node)
    else:
        left = visit(source)
        if left.base == "date":
            days = f"CAST({of_finite(left, lambda v: f'unix_date({v})')} AS DECIMAL(10, 0))"
            return Term(f"({days} * 86400)", "numeric", precision=15, shows_scale=True)
        if left.base not in _EPOCH:
            raise refuse(node)
        right = Term(_EPOCH[left.base], left.base, literal="epoch")
    micros = microseconds_between(left, right).sql
    return Term(
        f"(CAST({micros} AS DECIMAL(19, 0)) * 0.000001)",
        "numeric",
        scale=6,
        precision=19,
        shows_scale=True,
    )


def _truncate(node: exp.Expr, visit: Visit) -> Term:
    moment = visit(node.this)
    unit = _unit(node, visit)
    if moment.base != "timestamp" or node.args.get("zone") or unit not in _UNITS:
        raise refuse(node)
    name = _SPARK_UNITS.get(unit, unit.upper())

    def body(value: str) -> str:
        # Spark truncates moments; in UTC a moment and its local time are one.
        return f"CAST(date_trunc('{name}', CAST({value} AS TIMESTAMP_LTZ)) AS TIMESTAMP_NTZ)"

    return Term(of_finite(moment, body, infinite="{0}"), "timestamp")


def _at_time_zone(node: exp.Expr, visit: Visit) -> Term:
    moment, zone = visit(node.this), visit(node.args["zone"])
    if zone.literal is None or zone.literal.upper() != "UTC" or moment.base not in MOMENTS:
        raise refuse(node)
    if moment.base == "timestamptz":
        return change(moment, "timestamp", lambda v: f"CAST({v} AS TIMESTAMP_NTZ)")
    if moment.base == "timestamp":
        return change(as_timestamp(moment), "timestamptz", lambda v: f"CAST({v} AS TIMESTAMP_LTZ)")
    raise refuse(node)


RULES: dict[type[exp.Expr], Rule] = {
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncate,
    exp.AtTimeZone: _at_time_zone,
}


def _unit(node: exp.Expr, visit: Visit) -> str:
    unit = node.args["unit"]
    if isinstance(unit, exp.Var):
        return unit.name.lower()
    return (visit(unit).literal or "").lower()


def _without_year_zero(year: str) -> str:
    return f"({year} - CASE WHEN {year} <= 0 THEN 1 ELSE 0 END)"
