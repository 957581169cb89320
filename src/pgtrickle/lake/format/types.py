"""The exact representation of each PostgreSQL type in the lake.

A value leaves PostgreSQL as text that Arrow reads without loss: moments as counts of microseconds,
bytes as hexadecimal digits, arrays as JSON lists of such texts.  If a type of the lake holds
fewer values than PostgreSQL's, ``fits`` tests whether it holds a value; as soon as it does
not, the whole column is stored as PostgreSQL's text instead.  Nothing is ever rounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pyarrow as pa

from pgtrickle.model.sql_type import SqlType
from pgtrickle.model.text.output_text import output_cast

_MAX_DIGITS = 38
_MICROSECONDS = "(extract(epoch FROM {v}) * 1000000)::int8"
# DuckDB's own values for the infinities, and its last moment.
_MOMENT = (
    "CASE {v} WHEN 'infinity' THEN 9223372036854775807 WHEN '-infinity' THEN -9223372036854775807"
    f" ELSE {_MICROSECONDS} END"
)
_MOMENT_FITS = "({v} <= '294247-01-10 04:00:54' OR {v} = 'infinity')"
_DATE = (
    "CASE {v} WHEN 'infinity' THEN 2147483647 WHEN '-infinity' THEN -2147483647"
    " ELSE {v} - DATE '1970-01-01' END"
)


@dataclass(frozen=True, slots=True)
class LakeType:
    """A type of the lake, and how values of a PostgreSQL type become values of it."""

    name: str  # as ducklake_column.column_type says it; of a list, its element's
    arrow: pa.DataType  # in the file; of a list, its element's
    travels: pa.DataType  # as Arrow reads the text
    sql: str = "{v}"  # the text, from a value
    fits: str = ""  # whether the type can hold a value; "": always
    repeated: bool = False  # a list of these

    @property
    def ordered(self) -> bool:
        """Whether the catalog's minimum and maximum of the type are known to be right."""
        return not self.repeated and self.name not in {"json", "uuid", "blob"}


VARCHAR = LakeType("varchar", pa.string(), pa.string(), "({v})::text")

_TYPES = {
    "bool": LakeType("boolean", pa.bool_(), pa.bool_()),
    "int2": LakeType("int16", pa.int16(), pa.int16()),
    "int4": LakeType("int32", pa.int32(), pa.int32()),
    "int8": LakeType("int64", pa.int64(), pa.int64()),
    "float4": LakeType("float32", pa.float32(), pa.float32()),
    "float8": LakeType("float64", pa.float64(), pa.float64()),
    "date": LakeType("date", pa.date32(), pa.int32(), _DATE),
    "time": LakeType("time", pa.time64("us"), pa.int64(), _MICROSECONDS),
    "timestamp": LakeType("timestamp", pa.timestamp("us"), pa.int64(), _MOMENT, _MOMENT_FITS),
    "timestamptz": LakeType(
        "timestamptz", pa.timestamp("us", "UTC"), pa.int64(), _MOMENT, _MOMENT_FITS
    ),
    "uuid": LakeType("uuid", pa.uuid(), pa.string(), "encode(uuid_send({v}), 'hex')"),
    "bytea": LakeType("blob", pa.binary(), pa.string(), "encode({v}, 'hex')"),
    "json": LakeType("json", pa.string(), pa.string(), "({v})::text"),
    "jsonb": LakeType("json", pa.string(), pa.string(), "({v})::text"),
}


def decimal_type(precision: int, scale: int) -> LakeType:
    """Return the decimal type with the given precision and scale.

    >>> decimal_type(12, 2).name
    'decimal(12,2)'
    """
    limit = f"1e{precision - scale}"
    return LakeType(
        f"decimal({precision},{scale})",
        pa.decimal128(precision, scale),
        pa.decimal128(precision, scale),
        fits=f"(abs({{v}}) < {limit} AND scale(trim_scale({{v}})) <= {scale})",
    )


def is_unbounded(type_: SqlType) -> bool:
    """Tell whether the scale of a type must be taken from the data.

    >>> is_unbounded(SqlType("numeric", "numeric", "N"))
    True
    >>> is_unbounded(SqlType("numeric(12,2)", "numeric", "N", 12, 2))
    False
    """
    return type_.base == "numeric" and _declared(type_) is None


def lake_type(type_: SqlType, scale: int = 0) -> LakeType:
    """Return the lake type of a PostgreSQL type; ``scale`` is for decimals without a declared one.

    >>> lake_type(SqlType("numeric(12,2)", "numeric", "N", 12, 2)).name
    'decimal(12,2)'
    >>> lake_type(SqlType("interval", "interval", "T")).name
    'varchar'
    >>> lake_type(SqlType("integer[]", "_int4", "A")).repeated
    True
    """
    if type_.base == "numeric":
        return _declared(type_) or decimal_type(_MAX_DIGITS, scale)
    if type_.category == "A" and type_.base.startswith("_"):
        # The casts of a type also apply to its arrays.
        element = SqlType(type_.display, type_.base[1:], type_.category)
        return _list_of(_TYPES.get(element.base) or text_type(element))
    return _TYPES.get(type_.base) or text_type(type_)


def text_type(type_: SqlType) -> LakeType:
    """Return the lake type that stores a PostgreSQL type as its text."""
    return replace(VARCHAR, sql=output_cast(type_).replace("{}", "({v})"))


def _declared(type_: SqlType) -> LakeType | None:
    precision, scale = type_.precision, type_.scale
    if precision is None or scale is None or not 0 <= scale <= precision <= _MAX_DIGITS:
        return None
    return decimal_type(precision, scale)


def _list_of(element: LakeType) -> LakeType:
    """Return a list type; PostgreSQL's arrays may have more dimensions or other lower bounds.

    The number of dimensions is not part of the type, so only values show what does not fit.
    """
    one_dimension = "(cardinality({v}) = 0 OR (array_ndims({v}) = 1 AND array_lower({v}, 1) = 1))"
    text = element.sql.replace("{v}", "e")
    fits = element.fits.replace("{v}", "e")
    every = f" AND (SELECT bool_and({fits}) FROM unnest({{v}}) AS u (e)) IS NOT FALSE"
    return LakeType(
        element.name,
        element.arrow,
        element.travels,
        "CASE WHEN {v} IS NOT NULL THEN (SELECT coalesce(json_agg((" + text + ")::text ORDER BY i),"
        " '[]')::text FROM unnest({v}) WITH ORDINALITY AS u (e, i)) END",
        one_dimension + (every if fits else ""),
        repeated=True,
    )


def kept_as(name: str, type_: SqlType) -> LakeType | None:
    """Return how a lake column stores a PostgreSQL type; None if it has another type.

    ``name`` is the catalog's type: the usual one, a decimal of any scale for ``numeric``, or
    the text of a column whose values did not all fit.

    >>> numeric = SqlType("numeric", "numeric", "N")
    >>> [None if kept is None else kept.name for kept in
    ...  (kept_as(name, numeric) for name in ("decimal(38,7)", "varchar", "int32"))]
    ['decimal(38,7)', 'varchar', None]
    """
    if name == VARCHAR.name:
        return text_type(type_)
    usual = lake_type(type_)
    if is_unbounded(type_) and (match := re.fullmatch(r"decimal\((\d+),(\d+)\)", name)):
        return decimal_type(int(match[1]), int(match[2]))
    return usual if name == (usual.name if not usual.repeated else "list") else None
