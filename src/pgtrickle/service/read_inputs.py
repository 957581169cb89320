"""Read what a stage needs: from the sources under the snapshot, and from earlier stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from psycopg import Connection

from pgtrickle.capture.windows import window_predicate
from pgtrickle.delta.reads import (
    KeyArray,
    Read,
    ReadKind,
    fill_marks,
    fill_ranges,
    keys_mark,
    stage_changes,
    stage_keys,
)
from pgtrickle.errors import ValueOutOfRangeError
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.names import quote_identifier
from pgtrickle.model.report import SourceRead
from pgtrickle.service.change_keys import known_keys, range_condition
from pgtrickle.service.snapshot import BufferView, Snapshot
from pgtrickle.spark.arrow_reader import SmallRead, SnapshotReader
from pgtrickle.spark.carriers import MAX_DECIMAL_DIGITS, Carrier, Use, carrier_for
from pgtrickle.spark.conform import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    conform_column,
)
from pgtrickle.spark.decimal_size import probe_sql
from pgtrickle.spark.large_read import LargeRead, page_count_sql

_PAGE_BYTES = 8192
_WEIGHT = Carrier("{}::int4", pa.int32(), equality_faithful=True, order_faithful=True)


@dataclass(frozen=True, slots=True)
class Window:
    """Where the changes of sources are read, and which of them."""

    buffers: BufferView
    reader: SnapshotReader  # of the buffers
    frontier: Frontier | None  # that the stream table has reached

    @property
    def condition(self) -> str:
        """The condition on ``__xid`` of a buffer."""
        if self.frontier is None:
            return "true"
        return window_predicate(self.frontier.snapshot, self.buffers.upper)


def read_inputs(
    reads: Sequence[Read],
    window: Window,
    reader: SnapshotReader,
    writer: Connection,
    changes: Mapping[str, pa.Table] | None = None,
) -> dict[str, pa.Table]:
    """Return the relations that a stage's SQL names, each under its name.

    Changes of earlier stages exist only inside the writer's transaction; everything else is read
    under the snapshot, side by side.  ``changes`` are those that were read before: their values
    bound the reads.
    """
    changes = changes or {}
    known = _known_keys(changes, window)
    texts = {
        read.view: fill_ranges(
            read.sql_with(known),
            [range_condition(one, changes[one.view]) for one in read.ranges],
        )
        for read in reads
    }
    keys = _stage_keys(texts.values(), writer)
    tables: dict[str, pa.Table] = {}
    small: dict[str, SmallRead] = {}
    windows: dict[str, SmallRead] = {}
    for read in reads:
        carriers = _carriers(read)
        sql = fill_marks(texts[read.view], window.condition, keys)
        if read.kind is ReadKind.STAGE:
            tables[read.view] = _read_stage(writer, read, sql, carriers)
        else:
            among = windows if read.kind is ReadKind.CHANGES else small
            among[read.view] = SmallRead(_cast(read, carriers, sql), carriers)
    if window.reader is reader:
        return tables | reader.read_all(windows | small)
    return tables | window.reader.read_all(windows) | reader.read_all(small)


def _known_keys(
    changes: Mapping[str, pa.Table], window: Window
) -> Callable[[KeyArray], str | None]:
    """Return how to write key values that a read under the snapshot cannot find by itself.

    Under the snapshot a buffer lacks what came from the log since: then its values are found
    where they are, and written out.
    """
    at_hand = known_keys(changes)

    def literal(array: KeyArray) -> str | None:
        known = at_hand(array)
        if known is not None or window.buffers.upper is None or stage_keys(array.sql):
            return known
        query = (
            "SELECT quote_literal(k::text) || '::' || pg_typeof(k)::text"
            f" FROM (SELECT {fill_marks(array.sql, window.condition, {})} AS k) AS keys"
        )
        [(found,)] = window.buffers.connection.execute(query.encode()).fetchall()
        return str(found)

    return literal


def describe_large_read(snapshot: Snapshot, read: Read, smallest_bytes: int) -> LargeRead | None:
    """Describe the read of a whole table for executors; None where it is small enough for here."""
    if read.relation is None:
        return None
    connection = snapshot.connection
    [(pages,)] = connection.execute(page_count_sql(read.relation).encode()).fetchall()
    if pages * _PAGE_BYTES < smallest_bytes:
        return None
    carriers = [
        _sized(connection, read, name, carrier)
        for name, carrier in zip(_names(read), _carriers(read), strict=True)
    ]
    return LargeRead(
        _cast(read, carriers, read.parts_sql),
        tuple(zip(_names(read), carriers, strict=True)),
        snapshot.name,
        relpages=pages,
    )


def _sized(connection: Connection, read: Read, name: str, carrier: Carrier) -> Carrier:
    """Give a decimal without declared digits the size that holds every value of the table."""
    if carrier.arrow is not None:
        return carrier
    probe = probe_sql(quote_identifier(name), f"({read.sql}) AS read")
    [(digits, scale, not_finite)] = connection.execute(probe.encode()).fetchall()
    if not_finite or digits + scale > MAX_DECIMAL_DIGITS:
        raise ValueOutOfRangeError(
            f'the column "{name}" of {read.source} exceeds what Spark can hold exactly',
            detail=f"{digits + scale} digits; {not_finite} values are NaN or infinite",
            hint="Declare it as numeric(p,s) with at most 38 digits.",
        )
    return carrier.sized(max(digits + scale, 1), scale)


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


def count_large_reads(reads: Sequence[Read], large: Mapping[str, LargeRead]) -> list[SourceRead]:
    """Tell the size of what executors read; they do not report rows one by one."""
    return [
        SourceRead(
            read.source,
            read.kind.value,
            f"{read.bounded_by}, in {len(large[read.view].partition_queries())} parts",
            -1,
            large[read.view].relpages * _PAGE_BYTES,
        )
        for read in reads
        if read.view in large
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


def _stage_keys(texts: Iterable[str], writer: Connection) -> dict[str, str]:
    """Return the key values of earlier stages, as array literals by their marks."""
    marks = {mark for text in texts for mark in stage_keys(text)}
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
