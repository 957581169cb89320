"""The catalog's statistics of a column's values: count, NULLs, NaN, minimum and maximum.

DuckDB uses them to skip files and whole tables and to answer ``count(*)``, so a wrong value is
a wrong answer without an error.  Uncertain values are left open, which costs no more
than an unnecessary read of a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.lake.format.types import LakeType

_LONGEST = 200  # characters of a least or greatest value that is worth keeping


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """The statistics of one column in one file."""

    values: int  # that are not NULL
    nulls: int
    least: str | None
    greatest: str | None
    nan: bool | None  # None: not a float
    size: int


class Gathering:
    """Collects the statistics of a column, batch by batch."""

    def __init__(self, type_: LakeType) -> None:
        self._type = type_
        self._least: Any = None
        self._greatest: Any = None
        self._known = type_.ordered
        self._values = self._nulls = self._size = 0
        self._nan: bool | None = False if pa.types.is_floating(type_.arrow) else None

    def add(self, values: pa.Array) -> None:
        """Add the values of one batch."""
        if self._type.repeated:
            values = values.flatten()
        self._nulls += values.null_count
        self._values += len(values) - values.null_count
        self._size += values.nbytes
        if self._nan is not None and not self._type.repeated:
            is_nan = pc.is_nan(values)
            self._nan = self._nan or bool(pc.any(is_nan).as_py())
            values = pc.if_else(is_nan, pa.scalar(None, values.type), values)
        if self._known:
            self._widen(values)

    def _widen(self, values: pa.Array) -> None:
        # As integers: the infinities of moments are outside Python's range.
        if pa.types.is_temporal(values.type):
            wide = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
            values = values.cast(wide)
        found = pc.min_max(values).as_py()
        if found["min"] is None:
            return
        if self._least is None:
            self._least, self._greatest = found["min"], found["max"]
        self._least = min(self._least, found["min"])
        self._greatest = max(self._greatest, found["max"])

    def result(self) -> ColumnStats:
        """Return the statistics so far."""
        least, greatest = self._print(self._least), self._print(self._greatest)
        if least is None or greatest is None:
            least = greatest = None
        nan = None if self._type.repeated else self._nan
        return ColumnStats(self._values, self._nulls, least, greatest, nan, self._size)

    def _print(self, value: Any) -> str | None:
        if value is None:
            return None
        kind = self._type.arrow
        if pa.types.is_boolean(kind):
            return "1" if value else "0"
        if pa.types.is_temporal(kind):
            return _print_moment(value, kind)
        if pa.types.is_floating(kind):
            return repr(value)
        text = f"{value:f}" if pa.types.is_decimal(kind) else str(value)
        return text if len(text) <= _LONGEST else None


def _print_moment(value: int, kind: pa.DataType) -> str | None:
    """Print a moment as DuckDB reads it; one outside the years 1 to 9999 is left open.

    >>> _print_moment(1_000_000, pa.timestamp("us", "UTC"))
    '1970-01-01 00:00:01+00'
    >>> _print_moment(2147483647, pa.date32())
    'infinity'
    """
    if pa.types.is_time(kind):
        return None  # Python has no time 24:00:00 as DuckDB has
    limit = 2**31 - 1 if pa.types.is_date32(kind) else 2**63 - 1
    if abs(value) == limit:
        return "infinity" if value > 0 else "-infinity"
    day = value if pa.types.is_date32(kind) else value // 86_400_000_000
    if not -719_162 <= day <= 2_932_896:
        return None
    if pa.types.is_date32(kind):
        return str(pa.scalar(value, pa.int32()).cast(pa.date32()).as_py())
    moment = pa.scalar(value, pa.int64()).cast(pa.timestamp("us")).as_py()
    return f"{moment}+00" if kind.tz else str(moment)
