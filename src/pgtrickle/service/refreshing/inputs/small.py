"""Small reads: rows of the sources and of earlier stages, into this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from psycopg import Connection

from pgtrickle.delta.reads import Read, ReadKind, fill_marks, keys_mark, stage_changes, stage_keys
from pgtrickle.model.report import SourceRead
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.refreshing.inputs.change_keys import MAX_KEYS
from pgtrickle.service.refreshing.inputs.change_window import Window
from pgtrickle.sql.text.current_time import Moments
from pgtrickle.transit.arrow_reader import SmallRead, SnapshotReader
from pgtrickle.transit.carriers import Carrier, Use, carrier_for
from pgtrickle.transit.conform import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_MINUS_INFINITY,
    conform_column,
)
from pgtrickle.transit.fixed_settings import FIXED_SETTINGS

_VALUE_BYTES = 32  # rough size of a value of a stage's changes
_WEIGHT = Carrier("{}::int4", pa.int32(), equality_faithful=True, order_faithful=True)


def read_inputs(
    reads: Mapping[str, tuple[Read, str]],
    window: Window,
    reader: SnapshotReader,
    writer: Connection,
    limit: int | None = None,
    *,
    through_writer: bool = False,
) -> dict[str, pa.Table | None]:
    """Return the relations of a stage's SQL, given each read with its finished query.

    Changes of earlier stages exist only inside the writer's transaction; everything else is read in
    parallel under the snapshot or that of the buffers, unless ``through_writer`` says that sources
    were written there too. State is read under the snapshot even then: a stage computes from the
    rows stored before, and the writer has already merged its changes. A read of more than ``limit``
    bytes is abandoned: None takes its place.
    """
    if through_writer:
        with fixed_settings(writer):
            written: dict[str, pa.Table | None] = {
                view: _read_stage(writer, read, sql, carriers_of(read), limit)
                for view, (read, sql) in reads.items()
                if not read.state
            }
        stored = {
            view: SmallRead(cast_read(read, carriers_of(read), sql), carriers_of(read))
            for view, (read, sql) in reads.items()
            if read.state
        }
        return written | reader.read_all(stored, limit)
    tables: dict[str, pa.Table | None] = {}
    small: dict[str, SmallRead] = {}
    windows: dict[str, SmallRead] = {}
    for view, (read, sql) in reads.items():
        carriers = carriers_of(read)
        if read.kind is ReadKind.STAGE:
            tables[view] = _read_stage(writer, read, sql, carriers, limit)
        else:
            among = windows if read.kind is ReadKind.CHANGES else small
            among[view] = SmallRead(cast_read(read, carriers, sql), carriers)
    if window.reader is reader:
        return tables | reader.read_all(windows | small, limit)
    return tables | window.reader.read_all(windows, limit) | reader.read_all(small, limit)


@dataclass(frozen=True, slots=True)
class Marks:
    """The values of the marks in the queries of a stage, in this refresh."""

    window: str
    keys: Mapping[str, str]
    moments: Moments

    def filled(self, sql: str) -> str:
        """Return a query with its marks filled in."""
        return fill_marks(sql, self.window, self.keys, self.moments)


def marks_of(
    texts: Iterable[str],
    window: Window,
    writer: Connection,
    share: Callable[[str], QualifiedName] | None = None,
) -> Marks:
    """Find the values of the marks of some queries.

    Keys of earlier stages become array literals. If there are very many, ``share`` returns a table
    of the stage's changes from which each query collects them itself.
    """
    wanted = {mark for text in texts for mark in stage_keys(text)}
    keys = {}
    for stage, column in sorted(wanted):
        literal = _key_literal(writer, stage, column, limited=share is not None)
        if literal is None and share is not None:
            name = quote_identifier(column)
            literal = f"ARRAY(SELECT DISTINCT {name} FROM {share(stage).sql})"
        keys[keys_mark(stage, column)] = str(literal)
    return Marks(window.condition, keys, window.moments)


def count_reads(reads: Sequence[Read], tables: Mapping[str, pa.Table]) -> list[SourceRead]:
    """Return the rows of each read."""
    return [
        SourceRead(
            read.source,
            read.kind.value,
            read.bounded_by,
            tables[read.view].num_rows,
            tables[read.view].nbytes,
        )
        for read in reads
        if read.view in tables
    ]


def carriers_of(read: Read) -> tuple[Carrier, ...]:
    """Return the carriers of a read's columns, in order."""
    carriers = tuple(
        carrier_for(column.type, Use.COMPARE if column.name in read.computed else Use.PASS)
        for column in read.columns
    )
    if read.weighted:
        return (*carriers, _WEIGHT)
    return carriers or (_WEIGHT,)


def names_of(read: Read) -> list[str]:
    """Return the names of a read's columns, in order."""
    names = [column.name for column in read.columns]
    if read.weighted:
        return [*names, "__weight"]
    return names or ["__one"]


def cast_read(read: Read, carriers: Sequence[Carrier], sql: str) -> str:
    """Return a read's query with every column in the form of its carrier."""
    listed = ", ".join(
        f"{carrier.read_sql(quote_identifier(name))} AS {quote_identifier(name)}"
        for name, carrier in zip(names_of(read), carriers, strict=True)
    )
    return f"SELECT {listed} FROM ({sql}) AS read"


def _key_literal(writer: Connection, stage: str, column: str, *, limited: bool) -> str | None:
    """Return the key values of an earlier stage as an array literal; None if there are too many."""
    name = quote_identifier(column)
    literal = (
        "quote_literal(concat(COALESCE(array_agg(DISTINCT c), '{}'))) || '::'"
        " || pg_typeof(array_agg(c))::text"
    )
    if limited:
        literal = f"CASE WHEN count(*) <= {MAX_KEYS} THEN {literal} END"
    query = f"SELECT {literal} FROM (SELECT {name} AS c FROM {stage_changes(stage)}) AS changes"
    with fixed_settings(writer):
        [(found,)] = writer.execute(trusted(query)).fetchall()
    return None if found is None else str(found)


def _read_stage(
    writer: Connection, read: Read, sql: str, carriers: Sequence[Carrier], limit: int | None
) -> pa.Table | None:
    """Read an earlier stage's changes through the writer's own connection; None if too many."""
    listed = ", ".join(
        _portable(quote_identifier(name), carrier)
        for name, carrier in zip(names_of(read), carriers, strict=True)
    )
    most = None if limit is None else max(limit // (_VALUE_BYTES * len(carriers)), 1)
    at_most = "" if most is None else f" LIMIT {most + 1}"
    rows = writer.execute(trusted(f"SELECT {listed} FROM ({sql}) AS read{at_most}")).fetchall()
    if most is not None and len(rows) > most:
        return None
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(carriers)
    arrays = []
    for name, carrier, values in zip(names_of(read), carriers, columns, strict=True):
        arrays.append(_array(values, carrier, name))
    return pa.Table.from_arrays(arrays, names=names_of(read))


_SHOW_SETTINGS = (
    "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.unnest("
    "ARRAY['datestyle', 'intervalstyle', 'bytea_output', 'extra_float_digits']) AS name"
)
_RESTORE_SETTINGS = (
    "SELECT pg_catalog.set_config(name, value, true)"
    " FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.text[]),"
    " pg_catalog.unnest(%s::pg_catalog.text[])) AS was (name, value)"
)


@contextmanager
def fixed_settings(writer: Connection) -> Iterator[None]:
    """Read texts in one form during a block; writes keep the settings of the database."""
    before = writer.execute(_SHOW_SETTINGS).fetchall()
    writer.execute(FIXED_SETTINGS)
    yield
    names, values = zip(*before, strict=True)
    writer.execute(_RESTORE_SETTINGS, [list(names), list(values)])


def _portable(name: str, carrier: Carrier) -> str:
    """Return an expression whose Python value converts to the carried value without loss."""
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
