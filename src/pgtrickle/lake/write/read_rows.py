"""Rows of a PostgreSQL table as Arrow batches, in the types of the lake.

They are read by COPY over the connection that writes the table, since no other sees its rows
before the commit.  In CSV an empty string is quoted and NULL is not, so the two stay apart.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from psycopg import Connection

from pgtrickle.lake.format.columns import LakeColumn
from pgtrickle.lake.format.types import LakeType
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted

_BLOCK_BYTES = 4 * 2**20  # no row may be longer


def texts(columns: Sequence[LakeColumn], alias: str) -> list[str]:
    """Return the expressions that turn columns into text for transport."""
    return [
        column.type.sql.replace("{v}", f"{alias}.{quote_identifier(column.name)}")
        for column in columns
    ]


def arrow_texts(columns: Sequence[LakeColumn], alias: str) -> list[str]:
    """Return the expressions for ``decode_batch``, in PostgreSQL's binary format.

    Decimals travel as text, which costs both sides less than binary numerics.
    """
    return [
        f"({text})::text" if pa.types.is_decimal(_travels(column)) else text
        for column, text in zip(columns, texts(columns, alias), strict=True)
    ]


def decode_batch(columns: Sequence[LakeColumn], batch: pa.RecordBatch) -> list[pa.Array]:
    """Turn the first columns of a batch into the lake's types; leave the others unchanged."""
    arrays = [
        _decode(array.cast(_travels(column)), column.type)
        for array, column in zip(batch.columns, columns, strict=False)
    ]
    return [*arrays, *batch.columns[len(columns) :]]


def _travels(column: LakeColumn) -> pa.DataType:
    return pa.string() if column.type.repeated else column.type.travels


def read_rows(
    connection: Connection,
    columns: Sequence[LakeColumn],
    query: str,
    extra: Sequence[pa.DataType] = (),
) -> Generator[list[pa.Array], None, None]:
    """Yield the batches of a query: first ``texts``, then values of the types ``extra``.

    The caller has fixed the settings on which texts depend (see ``session``).
    """
    kinds = [*map(_travels, columns), *extra]
    names = [f"c{number}" for number in range(len(kinds))]
    copied = connection.cursor().copy(
        trusted(f"COPY ({query}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')")
    )
    with copied as copy, ExitStack() as stack:
        source = stack.enter_context(_Pull(copy))
        first = source.peek()
        if not first:
            return
        reader = pa.csv.open_csv(
            pa.PythonFile(source, mode="r"),
            read_options=pa.csv.ReadOptions(
                column_names=names, block_size=max(_BLOCK_BYTES, 2 * len(first)), use_threads=False
            ),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict(zip(names, kinds, strict=True)),
                null_values=[""],
                true_values=["t", "true"],
                false_values=["f", "false"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        for batch in reader:
            yield decode_batch(columns, batch)


class _Pull(io.RawIOBase):
    """The output of COPY as a readable file."""

    def __init__(self, copy: Any) -> None:
        self._chunks = iter(copy)
        self._rest = memoryview(b"")
        self._reading = threading.Lock()  # Arrow reads ahead, in its own thread
        self._over = False

    def close(self) -> None:
        """Wait for a running read, and refuse any other."""
        with self._reading:
            self._over = True
            self._rest = memoryview(b"")
        super().close()

    def peek(self) -> memoryview:
        """Return the first bytes without consuming them; nothing if there are no rows."""
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        return self._rest

    def readable(self) -> bool:
        """Say that this is a source."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes; nothing at the end."""
        with self._reading:
            if self._over:
                return b""
            parts, length = [self._rest], len(self._rest)
            # A chunk is a row: this loop runs once per row.
            while length < size and (chunk := next(self._chunks, None)) is not None:
                parts.append(chunk)
                length += len(chunk)
            taken = b"".join(parts)
            self._rest = memoryview(taken)[size:]
        return taken[:size]


def _decode(values: pa.Array, type_: LakeType) -> pa.Array:
    if not type_.repeated:
        return _decode_scalar(values, type_)
    lists = [None if text is None else json.loads(text) for text in values.to_pylist()]
    offsets = [0]
    flat: list[str | None] = []
    for one in lists:
        flat.extend(one or ())
        offsets.append(len(flat))
    elements = _decode_scalar(_parse(flat, type_.travels), type_)
    mask = pa.array([one is None for one in lists], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, mask=mask)


def _parse(flat: list[str | None], kind: pa.DataType) -> pa.Array:
    return pa.array(flat, pa.string()).cast(kind)


def _decode_scalar(values: pa.Array, type_: LakeType) -> pa.Array:
    if type_.name == "uuid":
        _, data = _unhex(pc.fill_null(values, "0" * 32))
        storage = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), len(values), [_validity(values), data]
        )
        return pa.ExtensionArray.from_storage(pa.uuid(), storage)
    if type_.name == "blob":
        starts, data = _unhex(pc.fill_null(values, ""))
        return pa.BinaryArray.from_buffers(
            pa.binary(), len(values), [_validity(values), starts, data]
        )
    return values.cast(type_.arrow) if values.type != type_.arrow else values


def _validity(values: pa.Array) -> pa.Buffer | None:
    # The validity bits of a new array, which begin at zero even for a slice.
    return pc.is_valid(values).buffers()[1] if values.null_count else None


def _unhex(digits: pa.Array) -> tuple[pa.Buffer, pa.Buffer]:
    """Turn strings of digits into the offsets of their bytes, and all the bytes."""
    _, offsets, data = digits.buffers()
    ends = pa.Array.from_buffers(pa.int32(), len(digits) + 1, [None, offsets], offset=digits.offset)
    first, last = ends[0].as_py(), ends[-1].as_py()
    starts = pc.divide(pc.subtract(ends, first), 2).cast(pa.int32())
    text = data.slice(first, last - first).to_pybytes() if data is not None else b""
    return starts.buffers()[1], pa.py_buffer(bytes.fromhex(text.decode()))
