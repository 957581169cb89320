"""Variances and standard deviations from sums, with the digits that PostgreSQL shows.

    variance(x)   =   (n Σx² − (Σx)²) / (n (n − 1))

PostgreSQL computes this too, over integers and numerics, from exact sums.  Its quotient has the
digits of a quotient of numerics, and its root as many as the quotient.  A root of numerics may
show more, so the root is computed to the digit from which rounding it again is exact.
"""

from __future__ import annotations

from sqlglot import exp

from pgtrickle.model.sql_type import SqlType

SPREADS = frozenset({"stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"})

# Squares have twice the digits, and Spark's decimals 38: ten are left for the number of rows.
_MOST_DIGITS = 14
_INTEGERS = frozenset({"int2", "int4", "int8"})
_MOST = 10**_MOST_DIGITS  # of a bigint that is added up


def is_added(function: str, type_: SqlType) -> bool:
    """Tell whether a statistic over values of a type follows from sums on every engine.

    >>> is_added("stddev", SqlType("numeric(10,2)", "numeric", "N", 10, 2))
    True
    >>> is_added("stddev", SqlType("double precision", "float8", "N"))
    False
    """
    if function not in SPREADS:
        return False
    if type_.base == "numeric":
        return type_.precision is not None and type_.precision <= _MOST_DIGITS
    return type_.base in _INTEGERS


def added_and_others(operand: exp.Expr, type_: SqlType) -> tuple[exp.Expr, ...]:
    """Return the values that can be added up, and what stands for the others.

    Of numerics the others are NaN, for which it is true; of bigints those with too many digits.
    """
    if type_.base == "numeric":
        zero = exp.Literal.number(0)
        difference = exp.paren(exp.Sub(this=exp.paren(operand), expression=exp.paren(operand)))
        added = exp.Case().when(exp.EQ(this=difference, expression=zero), operand.copy())
        others = exp.Case().when(
            exp.NEQ(this=difference.copy(), expression=zero.copy()), exp.true()
        )
        return exp.cast(added, type_.display, dialect="postgres"), others
    if type_.base != "int8":
        return (operand.copy(),)
    least = exp.GTE(this=exp.paren(operand), expression=exp.Literal.number(-_MOST))
    most = exp.LTE(this=exp.paren(operand), expression=exp.Literal.number(_MOST))
    small = exp.and_(least, most)
    return (
        exp.Case().when(small, operand.copy()),
        exp.Case().when(exp.not_(exp.paren(small.copy())), operand.copy()),
    )


def spread_sql(function: str, number: str, others: str, total: str, squares: str) -> str:
    """Write a statistic over the number of values, that of NaN, their sum and that of squares.

    Each is an SQL expression; ``others`` may be empty.
    """
    population = function.endswith("_pop")
    count = f"({number})::numeric"
    pairs = f"{count} * {count}" if population else f"{count} * ({count} - 1)"
    deviations = f"{count} * {squares} - {total} * {total}"
    quotient = f"({deviations}) / ({pairs})"
    value = quotient if "var" in function else _root(quotient)
    value = f"CASE WHEN {deviations} > 0 THEN {value} ELSE 0::numeric END"
    least = 0 if population else 1
    known = f"{number} > {least}"
    if not others:
        return f"CASE WHEN {known} THEN {value} END"
    nan = f"{number} + {others} > {least} AND {others} > 0 THEN 'NaN'::numeric"
    return f"CASE WHEN {nan} WHEN {known} THEN {value} END"


def _root(quotient: str) -> str:
    """Write the root of a quotient, with the digits of the quotient.

    A root of d digits is no tie of rounding, and is further from one than 10^-(2 d + 2).
    """
    digits = f"scale({quotient})"
    many = f"2 * {digits} + 4 + length(trunc({quotient})::text)"
    return f"round(sqrt(round({quotient}, {many})), {digits})"
