"""Arithmetic of floating-point numbers.

Both sides follow IEEE 754, but PostgreSQL reports an overflow to infinity and an underflow to zero
as errors, and lets NaN be divided by zero.
"""

from __future__ import annotations

from pgtrickle.sql.translate.term import Term, fail, let_both

INFINITY = "CAST('Infinity' AS DOUBLE)"
NAN = "CAST('NaN' AS DOUBLE)"
OVERFLOW = fail("value out of range: overflow")
UNDERFLOW = fail("value out of range: underflow")


def operate(symbol: str, left: Term, right: Term) -> Term:
    """Add, subtract, multiply or divide; the result is a float4 only of two float4."""
    single = left.base == right.base == "float4"
    if not single:
        left, right = _as_double(left), _as_double(right)

    def body(one: str, two: str) -> str:
        result = f"{one} {symbol} {two}"
        result = f"CAST({result} AS FLOAT)" if single and symbol == "/" else f"({result})"
        finite = f"abs({one}) < {INFINITY}"
        cases = []
        if symbol == "/":
            quotient = f"CASE WHEN isnan({one}) THEN {NAN} ELSE {fail('division by zero')} END"
            cases.append(f"WHEN {two} = 0 AND {one} IS NOT NULL THEN {quotient}")
            cases.append(f"WHEN abs({result}) = {INFINITY} AND {finite} THEN {OVERFLOW}")
            vanished = f"{result} = 0 AND {one} <> 0 AND abs({two}) < {INFINITY}"
            cases.append(f"WHEN {vanished} THEN {UNDERFLOW}")
        else:
            both = f"{finite} AND abs({two}) < {INFINITY}"
            cases.append(f"WHEN abs({result}) = {INFINITY} AND {both} THEN {OVERFLOW}")
        if symbol == "*":
            cases.append(f"WHEN {result} = 0 AND {one} <> 0 AND {two} <> 0 THEN {UNDERFLOW}")
        return f"(CASE {' '.join(cases)} ELSE {result} END)"

    base = "float4" if single else "float8"
    sql = let_both(left, right, body)
    return Term(f"CAST({sql} AS FLOAT)" if single and symbol == "/" else sql, base)


def _as_double(term: Term) -> Term:
    if term.base == "float8":
        return term
    return Term(f"CAST({term.sql} AS DOUBLE)", "float8", is_column=term.is_simple)
