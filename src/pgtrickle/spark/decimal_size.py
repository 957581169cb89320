"""Sizing a decimal column by its values.

An unconstrained numeric has no declared digits, so a read that computes with it takes the smallest
``decimal(p,s)`` that holds every value it brought exactly, or refuses by name.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.errors import ValueOutOfRangeError
from pgtrickle.spark.carriers import MAX_DECIMAL_DIGITS

# Written for Arrow's regular expressions (RE2): plain digits, as PostgreSQL prints a numeric.
_PLAIN_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"


def decimals_from_text(values: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
    """Turn numerics printed by PostgreSQL into the smallest decimal type that holds them all.

    >>> decimals_from_text(pa.chunked_array([["1.50", None, "-20.125"]]), "price").type
    Decimal128Type(decimal128(5, 3))
    """
    _require_numbers(values, column)
    point = pc.find_substring(values, ".")
    length = pc.utf8_length(values)
    fraction = pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(length, point), 1))
    sign = pc.cast(pc.starts_with(values, "-"), pa.int32())
    whole = pc.subtract(pc.if_else(pc.less(point, 0), length, point), sign)
    scale = pc.max(fraction).as_py() or 0
    precision = max((pc.max(whole).as_py() or 1) + scale, 1)
    if precision > MAX_DECIMAL_DIGITS:
        raise _out_of_range(column, f"its values need {precision} digits")
    return values.cast(pa.decimal128(precision, scale))


def decimals_of_size(values: pa.ChunkedArray, type_: pa.DataType, column: str) -> pa.ChunkedArray:
    """Turn numerics printed by PostgreSQL into decimals of a size known before the read."""
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        raise _out_of_range(column, f'a value does not fit "{type_}"') from error


def probe_sql(expression: str, relation: str) -> str:
    """Return a query for the digits before the point, the scale, and how many are not numbers."""
    return (
        f"SELECT coalesce(max(length(trunc(abs(v))::text)) FILTER (WHERE finite), 1)::int4, "
        f"coalesce(max(scale(v)) FILTER (WHERE finite), 0)::int4, "
        f"count(*) FILTER (WHERE NOT finite) "
        f"FROM (SELECT {expression} AS v, ({expression}) NOT IN ('NaN', 'Infinity', '-Infinity') "
        f"AS finite FROM {relation}) AS probed"
    )


def _require_numbers(values: pa.ChunkedArray, column: str) -> None:
    plain = pc.all(pc.match_substring_regex(values, _PLAIN_NUMBER)).as_py()
    if plain is False:
        raise _out_of_range(column, "it holds NaN or Infinity")


def _out_of_range(column: str, why: str) -> ValueOutOfRangeError:
    return ValueOutOfRangeError(
        f'the column "{column}" exceeds what Spark can hold exactly: {why}',
        detail=f"A Spark decimal has at most {MAX_DECIMAL_DIGITS} digits and no NaN or Infinity.",
        hint="Cast the column to a numeric(p,s) of at most 38 digits in the defining query, "
        "or create the stream table with refresh_mode = 'FULL'.",
    )
