"""How each PostgreSQL type travels through Arrow and Spark.

A value is carried natively only if Spark's values and PostgreSQL's are the same set with the same
meaning; everything else travels as PostgreSQL's own text, unchanged.  The use of the column
decides: a numeric that only passes through keeps its digits as text, one that is used in
computations becomes a decimal.  Infinite dates and timestamps saturate to the ends of Spark's
range, which keeps equality and order; functions of them would be wrong, so ``COMPUTE`` refuses them
at the read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from pgtrickle.model.sql_type import CANONICAL_TEXT, SqlType
from pgtrickle.model.text.output_text import output_cast

MAX_DECIMAL_DIGITS = 38


class Use(Enum):
    """The use of a column in the data plane."""

    PASS = "pass"  # noqa: S105 - not a password: carried from source to target, compared as text
    COMPARE = "compare"  # joined, grouped, ordered or filtered by
    COMPUTE = "compute"  # an argument of arithmetic, a function or a summing aggregate


@dataclass(frozen=True, slots=True)
class Carrier:
    """The shape in which the values of one column travel.

    ``equality_faithful``: two carried values are equal for Spark exactly if they are for
    PostgreSQL. ``order_faithful``: the same for ``<``.
    """

    read_cast: str  # applied to the column by the PostgreSQL read, e.g. "{}::text"
    arrow: pa.DataType | None  # None: a decimal sized by the values of each read
    equality_faithful: bool
    order_faithful: bool
    finite_only: bool = False

    def read_sql(self, expression: str) -> str:
        """Return the SQL that reads ``expression`` in this shape.

        >>> carrier_for(SqlType("uuid", "uuid", "U")).read_sql('"id"')
        '("id")::text'
        """
        return self.read_cast.replace("{}", f"({expression})")

    @property
    def spark_ddl(self) -> str:
        """The Spark type, as DDL; a decimal that is not sized yet has none.

        >>> carrier_for(SqlType("numeric(12,2)", "numeric", "N", 12, 2)).spark_ddl
        'decimal(12,2)'
        """
        if self.arrow is None:
            raise ValueError("the decimal has no size before its values are read")
        return spark_type(self.arrow)

    def sized(self, precision: int, scale: int) -> Carrier:
        """Return the carrier of a decimal whose size a probe of the values has found."""
        return replace(self, arrow=pa.decimal128(precision, scale))


_TIMESTAMP = pa.timestamp("us")
_TIMESTAMPTZ = pa.timestamp("us", tz="UTC")
_SPARK_DDL: dict[pa.DataType, str] = {
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.date32(): "date",
    _TIMESTAMP: "timestamp_ntz",
    # Spelled out, because the session reads plain "timestamp" as the one without a zone.
    _TIMESTAMPTZ: "timestamp_ltz",
}
_ARROW = {ddl: arrow for arrow, ddl in _SPARK_DDL.items()} | {"timestamp": _TIMESTAMPTZ}
_DECIMAL_DDL = re.compile(r"decimal\((\d+),(\d+)\)")
_NATIVE: dict[str, pa.DataType] = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bool": pa.bool_(),
}
_DATETIME: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp": _TIMESTAMP,
    "timestamptz": _TIMESTAMPTZ,
}
_STRINGS = frozenset({"text", "varchar", "bpchar", "name"})
_BYTE_ORDERED = frozenset({"C", "POSIX", "C.UTF-8", "C.utf8", "ucs_basic", "pg_c_utf8"})
# Types whose output text is one to one with the value, and sorts by bytes like the values.
_TEXT_IN_ORDER = frozenset({"uuid", "bytea", "time"})
_CANONICAL_ELEMENTS = (
    frozenset(
        [
            "int2",
            "int4",
            "int8",
            "bool",
            "text",
            "varchar",
            "name",
            "date",
            "timestamp",
            "timestamptz",
        ]
    )
    | CANONICAL_TEXT
)


def spark_type(arrow: pa.DataType) -> str:
    """Return the Spark type, as DDL, of a carrier's Arrow type."""
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return _SPARK_DDL[arrow]


def arrow_type(spark_ddl: str) -> pa.DataType:
    """Return the carrier's Arrow type of a Spark type, as DDL or ``simpleString`` prints it.

    >>> arrow_type("decimal(12,2)")
    Decimal128Type(decimal128(12, 2))
    """
    if size := _DECIMAL_DDL.fullmatch(spark_ddl):
        return pa.decimal128(int(size[1]), int(size[2]))
    return _ARROW[spark_ddl]


def schema_ddl(schema: pa.Schema) -> str:
    """Return the schema of a table of carried columns as Spark DDL.

    >>> schema_ddl(pa.schema({"a": pa.int64(), "b c": pa.string()}))
    '`a` bigint, `b c` string'
    """
    return ", ".join(
        f"`{field.name.replace('`', '``')}` {spark_type(field.type)}" for field in schema
    )


def carrier_for(sql_type: SqlType, use: Use = Use.COMPARE) -> Carrier:
    """Return the carrier of a column of this type and use.

    >>> carrier_for(SqlType("numeric", "numeric", "N"), Use.PASS).spark_ddl
    'string'
    >>> carrier_for(SqlType("jsonb", "jsonb", "U")).equality_faithful
    False
    """
    base = sql_type.base
    if native := _NATIVE.get(base):
        return Carrier("{}", native, equality_faithful=True, order_faithful=True)
    if base == "oid":
        return Carrier("{}::int8", pa.int64(), equality_faithful=True, order_faithful=True)
    if datetime := _DATETIME.get(base):
        finite_only = use is Use.COMPUTE
        return Carrier("{}", datetime, True, True, finite_only)  # noqa: FBT003 - faithful twice
    if base in _STRINGS:
        return _string_carrier(sql_type, use)
    if base == "numeric":
        return _numeric_carrier(sql_type, use)
    return _text_carrier(sql_type)


def _string_carrier(sql_type: SqlType, use: Use) -> Carrier:
    # The cast of char(n) to text drops the blanks that its equality ignores; a value that only
    # passes through keeps them, for the unsized bpchar does store them.
    padded = sql_type.base == "bpchar" and use is not Use.PASS
    return Carrier(
        "{}::text" if padded else "{}",
        pa.string(),
        equality_faithful=padded or sql_type.base != "bpchar",
        order_faithful=sql_type.base == "name"
        or (sql_type.base != "bpchar" and sql_type.collation in _BYTE_ORDERED),
    )


def _numeric_carrier(sql_type: SqlType, use: Use) -> Carrier:
    size = _declared_size(sql_type)
    if use is Use.PASS:
        # With a declared scale equal values have equal digits.
        return Carrier("{}::text", pa.string(), size is not None, order_faithful=False)
    arrow = pa.decimal128(*size) if size else None
    return Carrier("{}::text", arrow, equality_faithful=True, order_faithful=True)


def _declared_size(sql_type: SqlType) -> tuple[int, int] | None:
    precision, scale = sql_type.precision, sql_type.scale or 0
    if precision is None:
        return None
    # numeric(5,-2) holds seven digits before the point; numeric(2,4) four after it.
    size = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    return size if size[0] <= MAX_DECIMAL_DIGITS else None


def _text_carrier(sql_type: SqlType) -> Carrier:
    base = sql_type.base
    array = sql_type.category == "A" and base.startswith("_")
    canonical = (
        base in CANONICAL_TEXT
        or sql_type.category == "E"
        or (array and base[1:] in _CANONICAL_ELEMENTS)
    )
    cast = output_cast(sql_type)
    return Carrier(cast, pa.string(), canonical, order_faithful=base in _TEXT_IN_ORDER)
