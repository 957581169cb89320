"""Read what a stage needs: from the sources under the snapshot, and from earlier stages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from psycopg import Connection

from pgtrickle.capture.windows import window_predicate
from pgtrickle.delta.reads import Read, ReadKind, fill_marks, keys_mark, stage_changes
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.names import quote_identifier
from pgtrickle.model.report import SourceRead
from pgtrickle.spark.arrow_reader import SmallRead, SnapshotReader
from pgtrickle.spark.carriers import Carrier, Use, carrier_for
from pgtrickle.spark.conform import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    conform_column,
)

_KEYS_MARK = re.compile(r":keys\(([^,()]+),([^()]+)\)")
_WEIGHT = Carrier("{}::int4", pa.int32(), equality_faithful=True, order_faithful=True)


def read_inputs(
    reads: Sequence[Read],
    frontier: Frontier | None,
    reader: SnapshotReader,
    writer: Connection,
) -> dict[str, pa.Table]:
    """Return the relations that a stage's SQL names, each under its name.

    Changes of earlier stages exist only inside the writer's transaction; everything else is read
    under the snapshot, side by side.
    """
    window = window_predicate(frontier.snapshot) if frontier else "true"
    keys = _stage_keys(reads, writer)
    tables: dict[str, pa.Table] = {}
    small: dict[str, SmallRead] = {}
    for read in reads:
        carriers = _carriers(read)
        sql = fill_marks(read.sql, window, keys)
        if read.kind is ReadKind.STAGE:
            tables[read.view] = _read_stage(writer, read, sql, carriers)
        else:
            small[read.view] = SmallRead(_cast(read, carriers, sql), carriers)
    return tables | reader.read_all(small)


def count_reads(reads: Sequence[Read], tables: Mapping[str, pa.Table]) -> list[SourceRead]:
    """Tell how much each read brought."""
    return [
        SourceRead(
            read.source,
            read.kind.value,
            read.bounded_by,
            tables[read.view].num_rows,
            tables[read.view].nbytes,
        )
        for read in reads
    ]


def _carriers(read: Read) -> tuple[Carrier, ...]:
    carriers = tuple(
        carrier_for(column.type, Use.COMPARE if column.name in read.computed else Use.PASS)
        for column in read.columns
    )
    if read.weighted:
        return (*carriers, _WEIGHT)
    return carriers or (_WEIGHT,)


def _names(read: Read) -> list[str]:
    names = [column.name for column in read.columns]
    if read.weighted:
        return [*names, "__weight"]
    return names or ["__one"]


def _cast(read: Read, carriers: Sequence[Carrier], sql: str) -> str:
    listed = ", ".join(
        f"{carrier.read_sql(quote_identifier(name))} AS {quote_identifier(name)}"
        for name, carrier in zip(_names(read), carriers, strict=True)
    )
    return f"SELECT {listed} FROM ({sql}) AS read"


def _stage_keys(reads: Sequence[Read], writer: Connection) -> dict[str, str]:
    """Return the key values of earlier stages, as array literals by their marks."""
    marks = {match for read in reads for match in _KEYS_MARK.findall(read.sql)}
    literals = {}
    for stage, column in sorted(marks):
        name = quote_identifier(column)
        query = (
            "SELECT quote_literal(COALESCE(array_agg(DISTINCT c), '{}')::text) || '::'"
            f" || pg_typeof(array_agg(c))::text FROM (SELECT {name} AS c"
            f" FROM {stage_changes(stage)}) AS changes"
        )
        [(literal,)] = writer.execute(query.encode()).fetchall()
        literals[keys_mark(stage, column)] = literal
    return literals


def _read_stage(writer: Connection, read: Read, sql: str, carriers: Sequence[Carrier]) -> pa.Table:
    """Read an earlier stage's changes through the writer's own connection."""
    listed = ", ".join(
        _portable(quote_identifier(name), carrier)
        for name, carrier in zip(_names(read), carriers, strict=True)
    )
    rows = writer.execute(f"SELECT {listed} FROM ({sql}) AS read".encode()).fetchall()
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(carriers)
    arrays = []
    for name, carrier, values in zip(_names(read), carriers, columns, strict=True):
        arrays.append(_array(values, carrier, name))
    return pa.Table.from_arrays(arrays, names=_names(read))


def _portable(name: str, carrier: Carrier) -> str:
    """Return an expression whose Python value makes the carried value without loss."""
    arrow = carrier.arrow
    if arrow is not None and pa.types.is_timestamp(arrow):
        return (
            f"CASE {name} WHEN 'infinity' THEN {TIMESTAMP_INFINITY}::int8"
            f" WHEN '-infinity' THEN ({TIMESTAMP_MINUS_INFINITY}::numeric)::int8"
            f" ELSE (extract(epoch FROM {name}) * 1000000)::int8 END"
        )
    if arrow is not None and pa.types.is_date32(arrow):
        return (
            f"CASE {name} WHEN 'infinity' THEN {DATE_INFINITY}"
            f" WHEN '-infinity' THEN ({DATE_MINUS_INFINITY}::int8)::int4"
            f" ELSE {name} - '1970-01-01'::date END"
        )
    return carrier.read_sql(name)


def _array(values: Sequence[object], carrier: Carrier, name: str) -> pa.ChunkedArray:
    arrow = carrier.arrow
    if arrow is None or pa.types.is_decimal(arrow):
        return conform_column(pa.chunked_array([pa.array(values, pa.string())]), carrier, name)
    if pa.types.is_timestamp(arrow):
        return pa.chunked_array([pa.array(values, pa.int64()).view(arrow)])
    if pa.types.is_date32(arrow):
        return pa.chunked_array([pa.array(values, pa.int32()).view(arrow)])
    return pa.chunked_array([pa.array(values, arrow)])
