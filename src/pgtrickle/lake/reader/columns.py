"""The columns of a lake table as of a snapshot, and the Spark types that hold their values exactly.

Columns are identified by ids, never by names or positions: a renamed column keeps its id,
and one that was dropped and created again under its old name has another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from psycopg import Connection

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.model.text.trusted import trusted

# The type of the lake, Arrow's and Spark's.  Types without an exact Spark type are omitted.
_SCALARS = {
    "boolean": (pa.bool_(), "boolean"),
    "int8": (pa.int8(), "tinyint"),
    "int16": (pa.int16(), "smallint"),
    "int32": (pa.int32(), "int"),
    "int64": (pa.int64(), "bigint"),
    "uint8": (pa.int16(), "smallint"),
    "uint16": (pa.int32(), "int"),
    "uint32": (pa.int64(), "bigint"),
    "uint64": (pa.decimal128(20, 0), "decimal(20,0)"),
    "float32": (pa.float32(), "float"),
    "float64": (pa.float64(), "double"),
    "varchar": (pa.string(), "string"),
    "json": (pa.string(), "string"),
    "uuid": (pa.string(), "string"),
    "blob": (pa.binary(), "binary"),
    "date": (pa.date32(), "date"),
    "timestamp": (pa.timestamp("us"), "timestamp_ntz"),
    "timestamp_us": (pa.timestamp("us"), "timestamp_ntz"),
    "timestamp_ms": (pa.timestamp("us"), "timestamp_ntz"),
    "timestamp_s": (pa.timestamp("us"), "timestamp_ntz"),
    "timestamp_ns": (pa.timestamp("us"), "timestamp_ntz"),
    "timestamptz": (pa.timestamp("us", "UTC"), "timestamp_ltz"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NESTED = frozenset({"list", "struct", "map"})


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column, or a part of one: the fields of a struct, the elements of a list."""

    id: int
    name: str
    kind: str  # as ducklake_column.column_type says it
    default: str | None  # for rows whose file is older than the column
    parts: tuple[ReadColumn, ...] = ()

    @property
    def arrow(self) -> pa.DataType:
        """The type as Spark expects it from Arrow."""
        if self.kind == "list":
            return pa.list_(pa.field("element", self.parts[0].arrow))
        if self.kind == "struct":
            return pa.struct([pa.field(part.name, part.arrow) for part in self.parts])
        if self.kind == "map":
            key, value = self.parts
            return pa.map_(
                pa.field("key", key.arrow, nullable=False), pa.field("value", value.arrow)
            )
        return _scalar(self)[0]

    @property
    def spark(self) -> str:
        """The type as Spark's DDL writes it.

        >>> part = ReadColumn(2, "element", "decimal(12,2)", None)
        >>> ReadColumn(1, "prices", "list", None, (part,)).spark
        'array<decimal(12,2)>'
        """
        if self.kind == "list":
            return f"array<{self.parts[0].spark}>"
        if self.kind == "struct":
            return f"struct<{', '.join(f'{quoted(one.name)}: {one.spark}' for one in self.parts)}>"
        if self.kind == "map":
            return f"map<{self.parts[0].spark}, {self.parts[1].spark}>"
        return _scalar(self)[1]


def quoted(name: str) -> str:
    """Quote a name for Spark."""
    return "`" + name.replace("`", "``") + "`"


def _scalar(column: ReadColumn) -> tuple[pa.DataType, str]:
    if match := _DECIMAL.fullmatch(column.kind):
        digits, scale = int(match[1]), int(match[2])
        return pa.decimal128(digits, scale), f"decimal({digits},{scale})"
    found = _SCALARS.get(column.kind)
    if found is None:
        raise LakeReadError(
            f'Spark has no type for the column "{column.name}" of the type {column.kind}',
            hint="Name the columns to read, without it, with the option columns.",
        )
    return found


_LIST = """
    SELECT column_id, column_name, column_type, initial_default, parent_column FROM {column}
     WHERE table_id = %(table)s AND begin_snapshot <= %(snapshot)s
       AND (end_snapshot IS NULL OR end_snapshot > %(snapshot)s)
     ORDER BY column_order, column_id
"""


def list_columns(
    connection: Connection, catalog: LakeCatalog, table_id: int, snapshot_id: int
) -> tuple[ReadColumn, ...]:
    """Return the columns that a table has in a snapshot."""
    rows = connection.execute(
        trusted(_LIST.format(column=catalog.table("column"))),
        {"table": table_id, "snapshot": snapshot_id},
    ).fetchall()
    children: dict[int | None, list[tuple[int, str, str, str | None]]] = defaultdict(list)
    for id_, name, kind, default, parent in rows:
        children[parent].append((id_, name, kind, default))

    def below(parent: int | None) -> tuple[ReadColumn, ...]:
        return tuple(
            ReadColumn(id_, name, kind, default, below(id_) if kind in _NESTED else ())
            for id_, name, kind, default in children[parent]
        )

    return below(None)


def choose(columns: Sequence[ReadColumn], names: Sequence[str] | None) -> tuple[ReadColumn, ...]:
    """Return the columns to read, in the order in which they are named.

    >>> columns = [ReadColumn(1, "a", "int32", None), ReadColumn(2, "b", "int32", None)]
    >>> [one.name for one in choose(columns, ["b"])]
    ['b']
    """
    if names is None:
        return tuple(columns)
    known = {one.name: one for one in columns}
    if missing := [name for name in names if name not in known]:
        raise LakeReadError(
            f'the lake table has no column "{missing[0]}"',
            hint=f"It has: {', '.join(known)}.",
        )
    return tuple(known[name] for name in names)
