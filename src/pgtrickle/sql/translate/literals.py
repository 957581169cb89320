"""Constants: those that stand alone, and those that PostgreSQL prints as a text with its type.

The text of a date or an interval follows settings of the session that printed it, so only the
forms of ISO dates and of the ``postgres`` interval style are read.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from sqlglot import exp

from pgtrickle.sql.translate.term import (
    INTEGERS,
    MAX_DIGITS,
    NULL,
    SPARK_TYPES,
    Rule,
    Term,
    Visit,
    refuse,
    spark_string,
)

_INTEGER = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"-?[0-9]*\.?[0-9]*")
_FLOAT = re.compile(r"-?([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|Infinity)|NaN")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")
_OFFSET = re.compile(r"([+-])([0-9]{2})(?::([0-9]{2}))?")
_CANONICAL = {
    "uuid": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "bytea": re.compile(r"\\x([0-9a-f]{2})*"),
    "time": re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,5}[1-9])?"),
}
_WIDTHS = {"int2": 16, "int4": 32, "int8": 64}
DATE_INFINITY = {
    "infinity": "date_from_unix_date(2147483647)",
    "-infinity": "date_from_unix_date(-2147483648)",
}
_INFINITE_MICROS = {"infinity": "9223372036854775807", "-infinity": "-9223372036854775808"}
TIMESTAMPTZ_INFINITY = {
    name: f"timestamp_micros({micros})" for name, micros in _INFINITE_MICROS.items()
}
TIMESTAMP_INFINITY = {
    name: f"CAST({moment} AS TIMESTAMP_NTZ)" for name, moment in TIMESTAMPTZ_INFINITY.items()
}


def _literal(node: exp.Expr, _visit: Visit) -> Term:
    value = str(node.this)
    if node.is_string:
        return _text(value)
    if _INTEGER.fullmatch(value):
        return _whole(value)
    if _DECIMAL.fullmatch(value):
        return decimal(node, value)
    raise refuse(node)


def _whole(value: str) -> Term:
    for base in ("int4", "int8"):
        if -(2 ** (_WIDTHS[base] - 1)) <= int(value) < 2 ** (_WIDTHS[base] - 1):
            return Term(value, base, literal=value)
    return Term(f"{value}BD", "numeric", precision=len(value), literal=value)


def decimal(node: exp.Expr, value: str) -> Term:
    """Write a numeric constant; Spark gives it the digits that it is written with."""
    whole, _, fraction = value.removeprefix("-").partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > MAX_DIGITS or not whole + fraction:
        raise refuse(node)
    sql = f"CAST('{value}' AS DECIMAL({max(digits, 1)}, {len(fraction)}))"
    plain = whole and fraction and not value.startswith("-")
    return Term(
        value if plain else sql,
        "numeric",
        scale=len(fraction),
        precision=max(digits, 1),
        shows_scale=True,
        literal=value,
    )


def _text(value: str) -> Term:
    return Term(spark_string(value), "text", literal=value)


def _escaped_text(node: exp.Expr, _visit: Visit) -> Term:
    return _text(str(node.this))


def _boolean(node: exp.Expr, _visit: Visit) -> Term:
    word = "TRUE" if node.this else "FALSE"
    return Term(word, "bool", literal=word)


def _null(_node: exp.Expr, _visit: Visit) -> Term:
    return Term("NULL", NULL, literal="")


RULES: dict[type[exp.Expr], Rule] = {
    exp.Literal: _literal,
    exp.ByteString: _escaped_text,  # how the parser reads E'...'
    exp.Boolean: _boolean,
    exp.Null: _null,
}


def typed_literal(node: exp.Expr, value: str, base: str) -> Term:
    """Translate a constant that is printed as ``'value'::type``."""
    if base in {"text", "varchar", "bpchar"}:
        return Term(spark_string(value), base, literal=value)
    sql = _typed(value, base)
    if sql is not None:
        return Term(sql, base, literal=value)
    if base == "numeric" and _DECIMAL.fullmatch(value):
        return decimal(node, value)
    raise refuse(node)


def _typed(value: str, base: str) -> str | None:
    if base in INTEGERS and _INTEGER.fullmatch(value):
        limit = 2 ** (_WIDTHS[base] - 1)
        return f"CAST({value} AS {SPARK_TYPES[base]})" if -limit <= int(value) < limit else None
    if base in {"float4", "float8"} and _FLOAT.fullmatch(value):
        return f"CAST('{value}' AS {SPARK_TYPES[base]})"
    if base == "bool":
        return {"t": "TRUE", "true": "TRUE", "f": "FALSE", "false": "FALSE"}.get(value)
    if base == "date":
        return DATE_INFINITY.get(value) or (f"DATE'{value}'" if _DATE.fullmatch(value) else None)
    if base == "timestamp":
        plain = f"TIMESTAMP_NTZ'{value}'" if _TIMESTAMP.fullmatch(value) else None
        return TIMESTAMP_INFINITY.get(value) or plain
    if base == "timestamptz":
        return TIMESTAMPTZ_INFINITY.get(value) or _instant(value)
    if base in _CANONICAL and _CANONICAL[base].fullmatch(value):
        return spark_string(value)
    return None


def _instant(value: str) -> str | None:
    """Write a moment with an offset as microseconds, which no time zone can change.

    >>> _instant("1970-01-01 01:00:00.5+01")
    'timestamp_micros(500000)'
    """
    moment = _TIMESTAMP.match(value)
    offset = _OFFSET.fullmatch(value[moment.end() :]) if moment else None
    if moment is None or offset is None:
        return None
    shift = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
    local = datetime.fromisoformat(moment[0]).replace(tzinfo=UTC)
    passed = local - datetime(1970, 1, 1, tzinfo=UTC) - (shift if offset[1] == "+" else -shift)
    return f"timestamp_micros({passed // timedelta(microseconds=1)})"
