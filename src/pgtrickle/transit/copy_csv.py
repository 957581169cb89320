"""Arrow tables as the CSV that ``COPY ... FROM STDIN (FORMAT csv)`` reads back exactly.

Strings are always quoted and NULL never is, so the empty string and NULL stay apart.  Only dates
outside the years 1 to 9999, which Arrow does not print as PostgreSQL reads them, and bytes are
formatted one value at a time.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from pgtrickle.transit.conform import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
)

_DAY = 86_400_000_000
_FIRST_PLAIN_DAY = -719_162  # 0001-01-01
_LAST_PLAIN_DAY = 2_932_896  # 9999-12-31


def arrow_to_csv(table: pa.Table | pa.RecordBatch) -> bytes:
    r"""Return the rows as CSV without a header.

    >>> arrow_to_csv(pa.table({"a": ["", None, 'a"b'], "b": [1.5, float("inf"), None]}))
    b'"",1.5\n,inf\n"a""b",\n'
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    columns = [printable(column) for column in table.columns]
    printed = pa.Table.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
    sink = io.BytesIO()
    options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
    pa.csv.write_csv(printed, sink, options)
    return sink.getvalue()


def printable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that Arrow prints as PostgreSQL reads them."""
    if pa.types.is_date32(values.type):
        return _with_odd_days(values, pa.int32(), _FIRST_PLAIN_DAY, _LAST_PLAIN_DAY, _print_day)
    if pa.types.is_timestamp(values.type):
        first, last = _FIRST_PLAIN_DAY * _DAY, (_LAST_PLAIN_DAY + 1) * _DAY - 1
        zone = "+00" if values.type.tz else ""
        print_one = partial(_print_microsecond, zone=zone)
        return _with_odd_days(values, pa.int64(), first, last, print_one)
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return _hexadecimal(values)
    if pa.types.is_decimal(values.type):
        return values.cast(pa.string())
    return values


def _with_odd_days(
    values: pa.ChunkedArray,
    integers: pa.DataType,
    first: int,
    last: int,
    print_one: Callable[[int], str],
) -> pa.ChunkedArray:
    raw = values.cast(integers)
    extremes = pc.min_max(raw).as_py()
    if extremes["min"] is None or (extremes["min"] >= first and extremes["max"] <= last):
        return values
    odd = pc.or_(pc.less(raw, first), pc.greater(raw, last))
    plain = pc.if_else(odd, pa.scalar(None, values.type), values).cast(pa.string())
    texts = pa.chunked_array(
        [[None if v is None else print_one(v) for v in pc.if_else(odd, raw, None).to_pylist()]],
        pa.string(),
    )
    return pc.coalesce(texts, plain)


def _hexadecimal(values: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = [None if value is None else "\\x" + value.hex() for value in values.to_pylist()]
    return pa.chunked_array([texts], pa.string())


def _print_day(day: int) -> str:
    """Print a day count as PostgreSQL reads it.

    >>> _print_day(-2440550), _print_day(2145042905)
    ('4713-01-01 BC', '5874897-12-31')
    """
    if day == DATE_INFINITY:
        return "infinity"
    if day == DATE_MINUS_INFINITY:
        return "-infinity"
    date, era = _civil(day)
    return date + era


def _print_microsecond(moment: int, zone: str) -> str:
    """Print a microsecond count as PostgreSQL reads it.

    >>> _print_microsecond(-210863519999999999, "+00")
    '4713-01-01 00:00:00.000001+00 BC'
    """
    if moment == TIMESTAMP_INFINITY:
        return "infinity"
    if moment == TIMESTAMP_MINUS_INFINITY:
        return "-infinity"
    day, rest = divmod(moment, _DAY)
    seconds, micros = divmod(rest, 1_000_000)
    hours, seconds = divmod(seconds, 3600)
    date, era = _civil(day)
    return f"{date} {hours:02}:{seconds // 60:02}:{seconds % 60:02}.{micros:06}{zone}{era}"


def _civil(day: int) -> tuple[str, str]:
    """Turn days since 1970 into year, month and day of the proleptic Gregorian calendar."""
    shifted = day + 719_468  # counted from 0000-03-01, so that a leap day ends its year
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day_of_month = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year_of_era + era * 400 + (month <= 2)
    text = f"{year if year > 0 else 1 - year:04}-{month:02}-{day_of_month:02}"
    return text, "" if year > 0 else " BC"
