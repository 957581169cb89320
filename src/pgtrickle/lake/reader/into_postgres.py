"""Copy the rows of a lake table into a table of PostgreSQL with the types that they came from.

The reverse of ``lake/format/types.py``: each value becomes the text that PostgreSQL's types read.
What the reader for Spark refuses, times and infinities, comes as the integers that the files hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.reader.columns import ReadColumn, choose, list_columns
from pgtrickle.lake.reader.files import read_file
from pgtrickle.lake.reader.scan import FoundTable, plan_scan
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.transit.conform import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
)
from pgtrickle.transit.copy_csv import arrow_to_csv, printable

_AS_INTEGERS = {"date": "int32", "time": "int64", "timestamp": "int64", "timestamptz": "int64"}
_DAY = 86_400_000_000  # microseconds
_SEMICOLONS = frozenset({"box[]"})  # the one type whose arrays separate elements by another sign


def copy_into(
    connection: Connection,
    target: str,
    lake: Connection,
    catalog: LakeCatalog,
    table: FoundTable,
    snapshot_id: int,
    columns: Sequence[tuple[str, str]],
) -> None:
    """Copy the rows that a lake table has in a snapshot into a table, by names of columns.

    ``columns`` are names and types of PostgreSQL.  ``lake`` shows the catalog at one moment.
    """
    listed = list_columns(lake, catalog, table.id, snapshot_id)
    read = choose(listed, [name for name, _ in columns])
    scan = plan_scan(lake, catalog, table, [_as_stored(one) for one in read], snapshot_id)
    files = (read_file(one, scan.columns, snapshot_id) for one in scan.files)
    names = ", ".join(quote_identifier(name) for name, _ in columns)
    statement = f"COPY {target} ({names}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')"
    separators = [";" if form in _SEMICOLONS else "," for _, form in columns]
    with connection.cursor().copy(trusted(statement)) as copy:
        for batch in chain(scan.inlined, chain.from_iterable(files)):
            if batch.num_rows:
                copy.write(arrow_to_csv(_written(batch, read, separators)))


def _as_stored(column: ReadColumn) -> ReadColumn:
    parts = tuple(_as_stored(part) for part in column.parts)
    return replace(column, kind=_AS_INTEGERS.get(column.kind, column.kind), parts=parts)


def _written(
    batch: pa.RecordBatch, columns: Sequence[ReadColumn], separators: Sequence[str]
) -> pa.RecordBatch:
    arrays = [
        _list_texts(values, column.parts[0].kind, separator)
        if column.kind == "list"
        else _values(values, column.kind)
        for values, column, separator in zip(batch.columns, columns, separators, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _values(values: pa.Array, kind: str) -> pa.Array:
    """Return integers as the moments that they are, with the infinities of our own types."""
    if kind == "time":
        return pa.array([None if one is None else _time(one) for one in values.to_pylist()])
    if kind == "date":
        lowest = pa.scalar(DATE_MINUS_INFINITY, pa.int32())
        moved = pc.if_else(pc.equal(values, -DATE_INFINITY), lowest, values)
        return moved.view(pa.date32())
    if kind in {"timestamp", "timestamptz"}:
        lowest = pa.scalar(TIMESTAMP_MINUS_INFINITY, pa.int64())
        moved = pc.if_else(pc.equal(values, -TIMESTAMP_INFINITY), lowest, values)
        return moved.view(pa.timestamp("us", "UTC" if kind == "timestamptz" else None))
    return values


def _time(microseconds: int) -> str:
    """Return a time of day as PostgreSQL reads it.

    >>> _time(0), _time(86_400_000_000)
    ('00:00:00.000000', '24:00:00.000000')
    """
    seconds, micros = divmod(microseconds, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{micros:06}"


def _list_texts(lists: pa.Array, kind: str, separator: str) -> pa.Array:
    """Return lists as the text of arrays, each element in quotes."""
    elements = iter(_texts(_values(lists.flatten(), kind)))
    lengths = pc.list_value_length(lists).to_pylist()
    return pa.array(
        [
            None
            if length is None
            else _array_text([next(elements) for _ in range(length)], separator)
            for length in lengths
        ],
        pa.string(),
    )


def _texts(values: pa.Array) -> Iterator[str | None]:
    column = printable(pa.chunked_array([values]))
    yield from column.cast(pa.string()).to_pylist()


def _array_text(elements: Sequence[str | None], separator: str = ",") -> str:
    r"""Return the text of an array.

    >>> _array_text(['a"b', None, "NULL", ""])
    '{"a\\"b",NULL,"NULL",""}'
    """
    quoted = (
        "NULL" if one is None else '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for one in elements
    )
    return "{" + separator.join(quoted) + "}"
