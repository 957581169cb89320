"""Turn the fields of a file into the columns of the table: by ids, with defaults, in wider types.

A file is written once; the table may have renamed, added, dropped or widened columns since, and
parts of nested columns likewise.  The same holds for rows in the catalog.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.reader.columns import ReadColumn
from pgtrickle.lake.reader.values import parse_values

if TYPE_CHECKING:  # it also reads rows of the catalog, which pass through here
    from pgtrickle.lake.reader.scan import NameMapping

_FIELD_ID = b"PARQUET:field_id"
_LAST_DAY, _LAST_MOMENT = 2**31 - 1, 2**63 - 1  # DuckDB's infinities


@dataclass(frozen=True, slots=True)
class FileField:
    """A field of a file, or a part of one: its position and its column."""

    index: int
    id: int | None
    parts: tuple[FileField, ...] = ()


def fields_of(schema: pa.Schema, mapping: Sequence[NameMapping] = ()) -> tuple[FileField, ...]:
    """Return the fields of a file; without a mapping each must have an id."""
    return tuple(_fields(list(schema), mapping, None))


def _fields(
    fields: Sequence[pa.Field], mapping: Sequence[NameMapping], parent: NameMapping | None
) -> Iterator[FileField]:
    level = [one for one in mapping if one.parent == (None if parent is None else parent.id)]
    alone = parent is not None and len(fields) == len(level) == 1  # a list's part has any name
    for index, field in enumerate(fields):
        mapped = next((one for one in level if one.name == field.name or alone), None)
        if mapping:
            id_ = None if mapped is None else mapped.column_id
        else:
            id_ = int((field.metadata or {})[_FIELD_ID]) if _has_id(field) else None
        parts = tuple(_fields(_parts(field.type), mapping, mapped)) if mapped or not mapping else ()
        yield FileField(index, id_, parts)


def _has_id(field: pa.Field) -> bool:
    return _FIELD_ID in (field.metadata or {})


def _parts(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(type_):
        return [type_.field(index) for index in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [type_.value_field]
    return []


def fill(column: ReadColumn, rows: int) -> pa.Array:
    """Return the column of a file that is older than it."""
    if column.default is None:
        return pa.nulls(rows, column.arrow)
    return pa.repeat(parse_values(column, [column.default])[0], rows)


def conform(values: pa.Array, field: FileField, column: ReadColumn) -> pa.Array:
    """Return values of a file as those of a column."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if column.kind == "struct":
        return _conform_struct(values, field, column)
    if column.kind in {"list", "map"}:
        return _conform_list(values, field, column)
    return _conform_scalar(values, column)


def _conform_struct(values: pa.Array, field: FileField, column: ReadColumn) -> pa.Array:
    by_id = {part.id: part for part in field.parts}
    arrays = []
    for part in column.parts:
        found = by_id.get(part.id)
        if found is None:
            arrays.append(fill(part, len(values)))
        else:
            # The fields of a NULL struct do not count.
            arrays.append(conform(pc.struct_field(values, found.index), found, part))
    fields = [pa.field(part.name, part.arrow) for part in column.parts]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.is_null(values))


def _conform_list(values: pa.Array, field: FileField, column: ReadColumn) -> pa.Array:
    if values.offset:
        values = pc.take(values, pa.array(range(len(values)), pa.int64()))
    if len(field.parts) != len(column.parts) or any(
        part.id != found.id for part, found in zip(column.parts, field.parts, strict=True)
    ):
        raise LakeReadError(
            f'a file of the lake does not say which are the parts of "{column.name}"',
            hint="DuckDB reads NULLs there; rewrite the file with field ids.",
        )
    nulls = pc.is_null(values)
    if column.kind == "map":
        key, value = column.parts
        keys = conform(values.keys, field.parts[0], key)
        items = conform(values.items, field.parts[1], value)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=column.arrow, mask=nulls)
    elements = conform(values.values, field.parts[0], column.parts[0])
    offsets = values.offsets.cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, elements, type=column.arrow, mask=nulls)


def _conform_scalar(values: pa.Array, column: ReadColumn) -> pa.Array:
    if column.kind == "uuid" and not pa.types.is_string(values.type):
        texts = [None if one is None else str(uuid.UUID(bytes=one)) for one in values.to_pylist()]
        return pa.array(texts, pa.string())
    try:
        cast = values if values.type == column.arrow else values.cast(column.arrow)
    except pa.ArrowException as error:
        raise LakeReadError(
            f'values of the column "{column.name}" cannot be read into {column.spark}: {error}',
            hint="Name the columns to read, without it, with the option columns.",
        ) from error
    if pa.types.is_date32(cast.type):
        _refuse_infinities(cast.view(pa.int32()), _LAST_DAY, column)
    elif pa.types.is_timestamp(cast.type):
        _refuse_infinities(cast.view(pa.int64()), _LAST_MOMENT, column)
    return cast


def _refuse_infinities(values: pa.Array, last: int, column: ReadColumn) -> None:
    if pc.any(pc.equal(pc.abs(values), last)).as_py():
        raise LakeReadError(
            f'the column "{column.name}" holds infinity, for which Spark has no value',
            hint="Name the columns to read, without it, with the option columns.",
        )
