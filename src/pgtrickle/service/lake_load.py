"""Write all rows of a stream table to the lake from many processes, side by side.

Each part is a range of pages, read under one exported snapshot and written by the very code that
writes a difference.  The rows must be committed, since no other process sees them before; so a
large load is a delivery of its own, after the refresh: see docs/adr/0024.

A part may be written twice, by a task that Spark runs again.  What counts is the result that the
engine returns: every other file with the mark of the load is removed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.lake.columns import LakeColumn
from pgtrickle.lake.deliver import table_bytes
from pgtrickle.lake.parquet import DataFile
from pgtrickle.lake.partition import Spec
from pgtrickle.lake.read_rows import arrow_texts, decode_batch
from pgtrickle.lake.row_map import Runs
from pgtrickle.lake.session import fix_settings_sql
from pgtrickle.lake.storage import is_there, lake_path
from pgtrickle.lake.write_rows import Written, all_rows, write_all, write_batches
from pgtrickle.model.names import QualifiedName
from pgtrickle.ports import Engine, ResultTooLargeError
from pgtrickle.service.lake_errors import lake_errors
from pgtrickle.service.runtime import Runtime
from pgtrickle.spark.arrow_reader import stream
from pgtrickle.spark.large_read import CTID_RANGE, LargeRead

logger = logging.getLogger(__name__)

_PAGE_BYTES = 8192
# Some 30 MB of Parquet, which housekeeping leaves alone; a few parts keep a few cores busy.
_PART_BYTES = 256 * 2**20
_LEAST_PARTS = 4


def largest_in_place(runtime: Runtime) -> int | None:
    """Return the size up to which a stream table is loaded by the refresh itself; None: any."""
    return runtime.settings.large_read_bytes if runtime.engine.distributed else None


@dataclass(frozen=True, slots=True)
class LoadPart:
    """What one task has to do."""

    query: str
    columns: tuple[LakeColumn, ...]
    snapshot: str
    directory: str
    mark: str


def write_part(dsn: str, part: LoadPart) -> list[tuple[DataFile, Runs]]:
    """Write the rows of one part; what it wrote before it failed is taken away again."""
    into = Written(lake_path(part.directory), mark=part.mark)
    try:
        with (
            lake_errors(),
            closing(stream(dsn, part.snapshot, part.query, first=fix_settings_sql())) as batches,
        ):
            write_batches((decode_batch(part.columns, one) for one in batches), part.columns, into)
    except BaseException:
        into.remove()
        raise
    return into.files


@dataclass(frozen=True, slots=True)
class SpreadLoad:
    """The load of a stream table that nobody changes meanwhile."""

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
        into.mark = f"{uuid.uuid4().hex}-"
        parts = self._cut(connection, table, tuple(columns), into, spec)
        results: list[list[tuple[DataFile, Runs]]] = []
        try:
            with suppress(ResultTooLargeError):
                results = self.engine.spread(write_part, parts)
        finally:
            into.files += [one for result in results for one in result]
            into.paths += [into.directory / file.name for file, _ in into.files]
            into.remove_strays()
        if not results or not all(map(is_there, into.paths)):
            logger.warning(
                "the executors could not write to the lake of this process, which does so itself",
                extra={"table": str(table), "directory": str(into.directory)},
            )
            into.remove()
            write_all(connection, table, columns, into, spec)

    def _cut(
        self,
        connection: Connection,
        table: QualifiedName,
        columns: tuple[LakeColumn, ...],
        into: Written,
        spec: Spec,
    ) -> list[LoadPart]:
        size = table_bytes(connection, table)
        query = all_rows(table, columns, spec, arrow_texts(columns, "t"), CTID_RANGE)
        count = max(_LEAST_PARTS, -(-size // _PART_BYTES))
        read = LargeRead(
            query, (), self.snapshot, size // _PAGE_BYTES, ctid="t.ctid", partitions=count
        )
        return [
            LoadPart(one, columns, self.snapshot, str(into.directory), into.mark)
            for one in read.partition_queries()
        ]
