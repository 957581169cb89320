"""Turn the ADBC driver's columns into the types of their carriers.

The driver adds the distance between PostgreSQL's epoch (2000) and Unix's (1970) without a check, so
infinities and years past 294246 wrap around to before 4714 BC, where no true value can
be.  That makes them easy to find: infinities are moved to the ends of the range, the rest refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.errors import InternalError, ValueOutOfRangeError
from pgtrickle.transit.carriers import Carrier
from pgtrickle.transit.decimal_size import decimals_from_text, decimals_of_size

DATE_INFINITY, DATE_MINUS_INFINITY = 2**31 - 1, -(2**31)
TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY = 2**63 - 1, -(2**63)
_EPOCH_DAYS = 10_957
_EPOCH_MICROSECONDS = _EPOCH_DAYS * 86_400_000_000
# 4714-11-24 BC, the earliest day PostgreSQL knows.
_FIRST_DAY = -2_440_588
_FIRST_MICROSECOND = _FIRST_DAY * 86_400_000_000


def conform(table: pa.Table, carriers: Sequence[Carrier]) -> pa.Table:
    """Return the table with each column in its carrier's Arrow type and no metadata."""
    columns = [
        conform_column(table.column(i), carrier, table.schema.names[i])
        for i, carrier in enumerate(carriers)
    ]
    fields = [pa.field(name, c.type) for name, c in zip(table.schema.names, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def conform_column(values: pa.ChunkedArray, carrier: Carrier, name: str) -> pa.ChunkedArray:
    """Return one column in its carrier's Arrow type."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.cast(values.type.storage_type)
    if carrier.arrow is None:
        return decimals_from_text(values, name)
    if pa.types.is_decimal(carrier.arrow):
        return decimals_of_size(values, carrier.arrow, name)
    if values.type != carrier.arrow:
        raise InternalError(
            f'the column "{name}" was read as {values.type}, but travels as {carrier.arrow}'
        )
    if pa.types.is_date32(carrier.arrow):
        return _unwrap(values, carrier, name, pa.int32())
    if pa.types.is_timestamp(carrier.arrow):
        return _unwrap(values, carrier, name, pa.int64())
    return values


def _unwrap(
    values: pa.ChunkedArray, carrier: Carrier, name: str, integers: pa.DataType
) -> pa.ChunkedArray:
    days = pa.types.is_date32(values.type)
    first = _FIRST_DAY if days else _FIRST_MICROSECOND
    raw = values.cast(integers)
    least = pc.min(raw).as_py()
    if least is None or least >= first:
        return values
    if carrier.finite_only:
        raise _infinite(name)
    infinity, minus_infinity = _wrapped_infinities(days=days)
    at_infinity, at_minus_infinity = pc.equal(raw, infinity), pc.equal(raw, minus_infinity)
    wrapped = pc.less(raw, first)
    if pc.any(pc.and_not(wrapped, pc.or_(at_infinity, at_minus_infinity))).as_py():
        raise _too_late(name)
    top, bottom = (
        (DATE_INFINITY, DATE_MINUS_INFINITY)
        if days
        else (TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY)
    )
    moved = pc.if_else(at_infinity, pa.scalar(top, integers), raw)
    moved = pc.if_else(at_minus_infinity, pa.scalar(bottom, integers), moved)
    return moved.cast(values.type)


def _wrapped_infinities(*, days: bool) -> tuple[int, int]:
    if days:
        return DATE_MINUS_INFINITY + _EPOCH_DAYS - 1, DATE_MINUS_INFINITY + _EPOCH_DAYS
    lowest = TIMESTAMP_MINUS_INFINITY + _EPOCH_MICROSECONDS
    return lowest - 1, lowest


def _infinite(name: str) -> ValueOutOfRangeError:
    return ValueOutOfRangeError(
        f'the column "{name}" holds an infinite or too late date, which Spark cannot compute with',
        hint="Leave such rows out by isfinite(...) in the defining query, "
        "or create the stream table with refresh_mode = 'FULL'.",
    )


def _too_late(name: str) -> ValueOutOfRangeError:
    return ValueOutOfRangeError(
        f'the column "{name}" holds a timestamp after the year 294246, the last one Spark knows',
        hint="Cast the column to text in the defining query.",
    )
