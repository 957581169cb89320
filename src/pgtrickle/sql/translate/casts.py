"""Casts: from a constant's text, between numbers, and to text.

A text that is not a constant is read by each side in its own way (PostgreSQL's integers may be
written ``0x1F`` and ``1_000``), so such casts are refused; so is a numeric made of a
floating-point number, whose digits PostgreSQL limits to fifteen.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from pgtrickle.sql.translate.dates.moments import as_timestamp, change
from pgtrickle.sql.translate.literals import typed_literal
from pgtrickle.sql.translate.numbers.arithmetic import integer_as_numeric
from pgtrickle.sql.translate.numbers.floats import INFINITY, OVERFLOW, UNDERFLOW
from pgtrickle.sql.translate.printed import as_output
from pgtrickle.sql.translate.term import (
    FLOATS,
    INTEGERS,
    MAX_DIGITS,
    NULL,
    SPARK_TYPES,
    Rule,
    Term,
    Visit,
    fail,
    let,
    refuse,
    text_term,
)

_BASES = {
    exp.DType.SMALLINT: "int2",
    exp.DType.INT: "int4",
    exp.DType.BIGINT: "int8",
    exp.DType.DECIMAL: "numeric",
    exp.DType.FLOAT: "float4",
    exp.DType.DOUBLE: "float8",
    exp.DType.TEXT: "text",
    exp.DType.VARCHAR: "varchar",
    exp.DType.BPCHAR: "bpchar",
    exp.DType.BOOLEAN: "bool",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamptz",
    exp.DType.TIME: "time",
    exp.DType.INTERVAL: "interval",
    exp.DType.UUID: "uuid",
    exp.DType.VARBINARY: "bytea",
}


def _cast(node: exp.Expr, visit: Visit) -> Term:
    if not isinstance(node, exp.Cast):
        raise refuse(node)
    operand, target = node.this.unnest(), base_of(node.to)
    if is_null(operand) and target != "numeric":
        return _typed_null(target)
    size = [parameter.this for parameter in node.to.expressions]
    if target == "numeric":
        return _to_numeric(node, visit(operand), size)
    if size and target != "varchar":
        raise refuse(node)
    if isinstance(operand, exp.ByteString) or (
        isinstance(operand, exp.Literal) and operand.is_string
    ):
        if target == "interval":
            return Term("", "interval", literal=str(operand.this))
        if target and not size:
            return typed_literal(node, str(operand.this), target)
    term = visit(operand)
    if term.base == NULL:
        return _typed_null(target)
    if target in {"text", "varchar"}:
        return _to_text(node, term, size)
    convert = _CONVERSIONS.get(target or "")
    if convert is None:
        raise refuse(node)
    return term if term.base == target else convert(node, term)


def _typed_null(target: str | None) -> Term:
    """Write NULL as the type in which values of the target are carried, of any size."""
    sql = f"CAST(NULL AS {SPARK_TYPES.get(target or '', 'STRING')})"
    return Term(sql, target or NULL, literal="")


def _to_numeric(node: exp.Expr, term: Term, size: list[exp.Expr]) -> Term:
    if term.base == NULL:
        # A numeric travels as a decimal of some size, so its NULL has no type of its own.
        return Term("NULL", "numeric", shows_scale=True, literal="")
    if term.base == "text" and term.literal is not None:
        term = typed_literal(node, term.literal, "numeric")
    if term.base in INTEGERS:
        term = integer_as_numeric(term)
    if term.base != "numeric":
        raise refuse(node)
    if not size:
        return term
    precision, scale = int(size[0].name), int(size[1].name) if len(size) > 1 else 0
    if not 0 <= scale <= precision <= MAX_DIGITS:
        raise refuse(node)
    sql = f"CAST({term.sql} AS DECIMAL({precision}, {scale}))"
    return Term(sql, "numeric", scale=scale, precision=precision, shows_scale=True)


def _to_text(node: exp.Expr, term: Term, size: list[exp.Expr]) -> Term:
    base = base_of(node.args["to"]) or "text"
    if term.base == "bpchar":
        sql = f"rtrim({term.sql})"
    else:
        sql = as_output(node, term, true="true", false="false")
    unchanged = sql == term.sql
    if size:
        # Only an explicit cast is printed with a length, and it truncates longer values.
        sql, unchanged = f"left({sql}, {int(size[0].name)})", False
    text = text_term(sql, term)
    return Term(
        sql,
        base,
        collations=text.collations,
        literal=term.literal if unchanged else None,
        is_column=term.is_column and unchanged,
    )


def _to_integer(node: exp.Expr, term: Term) -> Term:
    target = base_of(node.args["to"]) or ""
    spark = SPARK_TYPES[target]
    if term.base in INTEGERS or (term.base == "bool" and target == "int4"):
        return Term(f"CAST({term.sql} AS {spark})", target, literal=term.literal)
    if term.base == "numeric":
        return Term(f"CAST(round({term.sql}, 0) AS {spark})", target)
    if term.base not in FLOATS:
        raise refuse(node)
    double = Term(f"CAST({term.sql} AS DOUBLE)", "float8", is_column=term.is_simple)
    if target != "int8":
        return Term(f"CAST(rint({double.sql}) AS {spark})", target)

    def body(value: str) -> str:
        # 2^63 is a double but no BIGINT; Spark would make the greatest BIGINT of it.
        refused = fail("bigint out of range")
        whole = f"CAST(rint({value}) AS BIGINT)"
        return f"(CASE WHEN {value} >= 9223372036854775808D THEN {refused} ELSE {whole} END)"

    return Term(let(double, body), target)


def _to_float8(node: exp.Expr, term: Term) -> Term:
    if term.base in {*INTEGERS, "float4"}:
        return Term(f"CAST({term.sql} AS DOUBLE)", "float8")
    if term.base == "numeric":
        # By way of its text, which is rounded once.
        return Term(f"CAST(CAST({term.sql} AS STRING) AS DOUBLE)", "float8")
    raise refuse(node)


def _to_float4(node: exp.Expr, term: Term) -> Term:
    if term.base in INTEGERS:
        return Term(f"CAST({term.sql} AS FLOAT)", "float4")
    if term.base == "numeric":
        return Term(f"CAST(CAST({term.sql} AS STRING) AS FLOAT)", "float4")
    if term.base != "float8":
        raise refuse(node)

    def body(value: str) -> str:
        single = f"CAST({value} AS FLOAT)"
        return (
            f"(CASE WHEN abs({single}) = {INFINITY} AND abs({value}) < {INFINITY} THEN {OVERFLOW}"
            f" WHEN {single} = 0 AND {value} <> 0 THEN {UNDERFLOW} ELSE {single} END)"
        )

    return Term(let(term, body), "float4")


def _to_boolean(node: exp.Expr, term: Term) -> Term:
    if term.base != "int4":
        raise refuse(node)
    return Term(f"CAST({term.sql} AS BOOLEAN)", "bool")


def _to_date(node: exp.Expr, term: Term) -> Term:
    if term.base != "timestamp":
        raise refuse(node)
    return change(term, "date", lambda value: f"CAST({value} AS DATE)")


def _to_timestamp(node: exp.Expr, term: Term) -> Term:
    if term.base != "date":
        raise refuse(node)
    return as_timestamp(term)


def _same_only(node: exp.Expr, _term: Term) -> Term:
    raise refuse(node)


_CONVERSIONS: dict[str, Callable[[exp.Expr, Term], Term]] = {
    **dict.fromkeys(INTEGERS, _to_integer),
    "float8": _to_float8,
    "float4": _to_float4,
    "bool": _to_boolean,
    "date": _to_date,
    "timestamp": _to_timestamp,
    **dict.fromkeys(("timestamptz", "uuid", "bytea", "time", "bpchar"), _same_only),
}

RULES: dict[type[exp.Expr], Rule] = {exp.Cast: _cast}


def base_of(type_: exp.DataType) -> str | None:
    """Return the name of a built-in type, if casts to it are known."""
    return _BASES.get(type_.this) if isinstance(type_.this, exp.DType) else None


def is_null(operand: exp.Expr) -> bool:
    """Tell whether an expression is NULL, cast or not: of a domain it is cast to the base too."""
    while isinstance(operand, exp.Cast):
        operand = operand.this.unnest()
    return isinstance(operand, exp.Null)
