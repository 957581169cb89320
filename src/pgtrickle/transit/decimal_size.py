"""Size a decimal column by its values.

An unconstrained numeric has no declared digits, so a read for computations uses the smallest
``decimal(p,s)`` that holds every value exactly, or refuses the column by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.errors import ValueOutOfRangeError
from pgtrickle.transit.carriers import MAX_DECIMAL_DIGITS

# Written for Arrow's regular expressions (RE2): plain digits, as PostgreSQL prints a numeric.
_PLAIN_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
_PLAIN = re.compile(_PLAIN_NUMBER)


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


def probe_sql(expressions: Sequence[str], relation: str) -> str:
    """Return a query for the least, the greatest and the longest fraction of each expression.

    Infinities and NaN are among the extremes if they occur, since PostgreSQL orders them so.
    """
    listed = ", ".join(
        f"min({one})::text, max({one})::text, max(scale({one}))::int4" for one in expressions
    )
    return f"SELECT {listed} FROM {relation}"


def decimal_size(
    least: str | None, greatest: str | None, scale: int | None, *, column: str
) -> tuple[int, int]:
    """Return the precision and the scale of the smallest decimal that holds the probed values.

    >>> decimal_size("-1200.5", "99.25", 3, column="price")
    (7, 3)
    >>> decimal_size(None, None, None, column="price")
    (1, 0)
    """
    extremes = [one for one in (least, greatest) if one is not None]
    if not all(_PLAIN.fullmatch(one) for one in extremes):
        raise _out_of_range(column, "it holds NaN or Infinity")
    whole = max((len(one.lstrip("-").partition(".")[0]) for one in extremes), default=1)
    precision = whole + (scale or 0)
    if precision > MAX_DECIMAL_DIGITS:
        raise _out_of_range(column, f"its values need {precision} digits")
    return precision, scale or 0


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
