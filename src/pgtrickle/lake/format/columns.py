"""The columns of a lake table: their types in the catalog, and their ids in the files.

A list has two ids: its own and its elements'.  A file whose list elements carry none is read back
as lists of NULLs, and one whose columns carry none is read by position, both without an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pgtrickle.lake.format.types import LakeType

ROW_ID = "_ducklake_internal_row_id"
SNAPSHOT_ID = "_ducklake_internal_snapshot_id"
_RESERVED_IDS = {
    ROW_ID: 2147483540,
    SNAPSHOT_ID: 2147483539,
    "file_path": 2147483646,
    "pos": 2147483645,
}
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a lake table."""

    id: int
    name: str
    type: LakeType
    element_id: int | None = None

    @property
    def leaf_id(self) -> int:
        """The id under which the catalog keeps the statistics of the values."""
        return self.id if self.element_id is None else self.element_id

    @property
    def field(self) -> pa.Field:
        """The column as a field of a Parquet file."""
        if self.element_id is None:
            return _with_id(pa.field(self.name, self.type.arrow), self.id)
        element = _with_id(pa.field("element", self.type.arrow), self.element_id)
        return _with_id(pa.field(self.name, pa.list_(element)), self.id)


def number_columns(
    columns: Sequence[tuple[str, LakeType]], first: int = 1
) -> tuple[LakeColumn, ...]:
    """Give columns their ids, elements of lists too.

    >>> from pgtrickle.lake.format.types import VARCHAR
    >>> [one.id for one in number_columns([("a", VARCHAR), ("b", VARCHAR)])]
    [1, 2]
    """
    numbered = []
    for name, type_ in columns:
        element = first + 1 if type_.repeated else None
        numbered.append(LakeColumn(first, name, type_, element))
        first += 2 if type_.repeated else 1
    return tuple(numbered)


def reserved_field(name: str, type_: pa.DataType) -> pa.Field:
    """Return one of the columns that DuckLake reserves."""
    return _with_id(pa.field(name, type_, nullable=False), _RESERVED_IDS[name])


def _with_id(field: pa.Field, id_: int) -> pa.Field:
    return field.with_metadata({_FIELD_ID: str(id_).encode()})
