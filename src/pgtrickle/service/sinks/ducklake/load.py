"""Write many rows of a stream table to the lake from many processes, side by side.

Each part is a range of places, read under one exported snapshot and written by the very code that
writes a small difference.  The rows must be committed, since no other process sees them before; so
a large delivery is one of its own, after the refresh: see docs/adr/0024.

A part may be written twice, by a task that Spark runs again.  What counts is the result that the
engine returns: every other file with the mark of the delivery is removed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise

from psycopg import Connection

from pgtrickle.lake.files.roots import LakePath
from pgtrickle.lake.files.stores import is_there
from pgtrickle.lake.format.columns import LakeColumn
from pgtrickle.lake.format.partition import Spec
from pgtrickle.lake.write.deliver import table_bytes
from pgtrickle.lake.write.parquet import DataFile
from pgtrickle.lake.write.read_rows import arrow_texts, decode_batch
from pgtrickle.lake.write.row_map import RowMap, Runs, cut_new, new_bytes
from pgtrickle.lake.write.text_settings import fix_settings_sql
from pgtrickle.lake.write.write_rows import (
    Written,
    all_rows,
    new_rows,
    write_all,
    write_batches,
    write_new,
)
from pgtrickle.model.text.names import QualifiedName, quote_literal
from pgtrickle.ports import Engine, ResultTooLargeError
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.errors import lake_errors
from pgtrickle.spark.executors.large_read import CTID_RANGE, LargeRead
from pgtrickle.transit.arrow_reader import stream

logger = logging.getLogger(__name__)

_PAGE_BYTES = 8192
# Some 30 MB of Parquet, which housekeeping leaves alone; a few parts keep a few cores busy.
_PART_BYTES = 256 * 2**20
_LEAST_PARTS = 4


def largest_in_place(runtime: Runtime) -> int | None:
    """Return the size up to which a refresh writes rows to the lake itself; None: any."""
    return runtime.settings.large_read_bytes if runtime.distributes else None


@dataclass(frozen=True, slots=True)
class LoadPart:
    """The rows of one task: those that are new to the lake, and those that keep their row ids."""

    fresh: str
    updated: str | None
    columns: tuple[LakeColumn, ...]
    snapshot: str
    directory: LakePath  # with the mode of new files
    mark: str


def write_part(dsn: str, part: LoadPart) -> list[tuple[DataFile, Runs]]:
    """Write the rows of one part; what it wrote before it failed is taken away again."""
    into = Written(part.directory, mark=part.mark)
    try:
        _write_query(dsn, part, part.fresh, into, updates=False)
        if part.updated is not None:
            _write_query(dsn, part, part.updated, into, updates=True)
    except BaseException:
        into.remove()
        raise
    return into.files


def _write_query(dsn: str, part: LoadPart, query: str, into: Written, *, updates: bool) -> None:
    with (
        lake_errors(),
        closing(stream(dsn, part.snapshot, query, first=fix_settings_sql())) as batches,
    ):
        decoded = (decode_batch(part.columns, one) for one in batches)
        write_batches(decoded, part.columns, into, updates=updates)


@dataclass(frozen=True, slots=True)
class SpreadLoad:
    """The delivery of a stream table that nobody changes meanwhile."""

    engine: Engine
    snapshot: str  # under which other processes read

    def write(
        self,
        connection: Connection,
        table: QualifiedName,
        columns: Sequence[LakeColumn],
        into: Written,
        spec: Spec,
    ) -> None:
        """Write every row; in this process, if the others cannot put files where it finds them."""
        size = table_bytes(connection, table)
        query = all_rows(table, columns, spec, arrow_texts(columns, "t"), CTID_RANGE)
        read = LargeRead(
            query, (), self.snapshot, size // _PAGE_BYTES, ctid="t.ctid", partitions=_parts(size)
        )
        queries = [(one, None) for one in read.partition_queries()]
        if not self._spread(table, columns, into, queries):
            write_all(connection, table, columns, into, spec)

    def write_new(
        self,
        connection: Connection,
        table: QualifiedName,
        columns: Sequence[LakeColumn],
        rows: RowMap,
        into: Written,
        spec: Spec,
    ) -> None:
        """Write the rows that the lake lacks, in the same way.

        Which of them keep row ids is committed before the snapshot, or the others do not see it.
        """
        parts = _parts(new_bytes(connection, rows, table))
        values = arrow_texts(columns, "t")
        places = cut_new(connection, rows, parts)
        queries = []
        for start, end in pairwise([None, *places, None]):
            where = _between(start, end)
            fresh, updated = (
                new_rows(table, columns, rows, spec, values, updates=updates, where=where)
                for updates in (False, True)
            )
            queries.append((fresh, updated))
        if not self._spread(table, columns, into, queries):
            write_new(connection, table, columns, rows, into, spec)

    def _spread(
        self,
        table: QualifiedName,
        columns: Sequence[LakeColumn],
        into: Written,
        queries: Sequence[tuple[str, str | None]],
    ) -> bool:
        """Let others write the rows of queries; False, and no files, if they cannot do so here."""
        into.mark = f"{uuid.uuid4().hex}-"
        parts = [
            LoadPart(fresh, updated, tuple(columns), self.snapshot, into.directory, into.mark)
            for fresh, updated in queries
        ]
        results: list[list[tuple[DataFile, Runs]]] = []
        try:
            with suppress(ResultTooLargeError):
                results = self.engine.spread(write_part, parts)
        finally:
            into.files += [one for result in results for one in result]
            into.paths += [into.directory / file.name for file, _ in into.files]
            into.remove_strays()
        if results and all(map(is_there, into.paths)):
            return True
        logger.warning(
            "the executors could not write to the lake of this process, which does so itself",
            extra={"table": str(table), "directory": str(into.directory)},
        )
        into.remove()
        return False


def _parts(size: int) -> int:
    return max(_LEAST_PARTS, -(-size // _PART_BYTES))


def _between(start: str | None, end: str | None) -> str:
    """Return the condition of places from one to another, of the map and of the table alike.

    >>> _between("(7,1)", None)
    "n.tid >= '(7,1)'::tid AND t.ctid >= '(7,1)'::tid"
    """
    bounds = [
        f"{column} {sign} {quote_literal(place)}::tid"
        for sign, place in ((">=", start), ("<", end))
        for column in ("n.tid", "t.ctid")
        if place is not None
    ]
    return " AND ".join(bounds) or "true"
