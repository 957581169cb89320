"""``spark.read.format("ducklake")``: lake tables as a data source of Spark.

The driver asks the catalog for the files of the snapshot; executors read them, several small
ones per task, and skip deleted rows.  A DataFrame stays at the snapshot that was the
newest when it was created.  Imported by functions only, since the base classes cost the import of
pyspark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (  # noqa: TID253 - see the module's docstring
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType  # noqa: TID253 - see the module's docstring

from pgtrickle.errors import LakeReadError, TrickleError
from pgtrickle.lake.reader.columns import ReadColumn, quoted
from pgtrickle.lake.reader.files import read_file
from pgtrickle.lake.reader.open import LakeRead, describe, plan
from pgtrickle.lake.reader.prune import Condition
from pgtrickle.lake.reader.scan import ReadFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "ducklake"
_TASK_BYTES = 32 * 2**20
_FILE_BYTES = 2**18  # the cost of opening a file, in bytes read in that time
_COMPARED = {
    EqualTo: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}


def register_ducklake(session: SparkSession) -> None:
    """Let a Spark session read lake tables with the format ``ducklake``."""
    session.dataSource.register(DuckLakeSource)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")


class DuckLakeSource(DataSource):
    """A lake table as of one snapshot."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return FORMAT

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Spark keeps this object with the DataFrame, so later reads see the same snapshot.
        with _coded():
            self._read = LakeRead.from_options(dict(self.options))
            self._snapshot_id, self._columns = describe(self._read)

    def schema(self) -> str:
        """Return the columns in Spark's DDL."""
        with _coded():
            return ", ".join(f"{quoted(column.name)} {column.spark}" for column in self._columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader; a user-defined schema is refused."""
        if schema.names != [column.name for column in self._columns]:
            raise LakeReadError(
                "ST704: the columns of a lake table come from its catalog",
                hint="Leave .schema(...) out; choose columns with the option columns.",
            )
        return DuckLakeReader(self._read, self._snapshot_id, self._columns)


class LakePartition(InputPartition):
    """The input of one task: files, or rows of the catalog."""

    def __init__(self, files: Sequence[ReadFile] = (), rows: bytes = b"") -> None:
        super().__init__(None)
        self.files = tuple(files)
        self.rows = rows  # as an Arrow stream


class DuckLakeReader(DataSourceReader):
    """Reads the files of a snapshot that may hold rows of interest."""

    def __init__(self, read: LakeRead, snapshot_id: int, columns: tuple[ReadColumn, ...]) -> None:
        self._read = read
        self._snapshot_id = snapshot_id
        self._columns = columns
        self._conditions: list[Condition] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Record filters; Spark still applies them, since files hold other rows too."""
        self._conditions = [found for one in filters if (found := _condition(one)) is not None]
        return filters

    def partitions(self) -> list[InputPartition]:
        """Return the tasks, each with files that are close to one another in the catalog."""
        with _coded():
            scan = plan(self._read, self._snapshot_id, self._columns, self._conditions)
        tasks: list[InputPartition] = [LakePartition(files) for files in group_files(scan.files)]
        if scan.inlined:
            tasks.append(LakePartition(rows=_as_stream(scan.inlined)))
        return tasks or [LakePartition()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        assert isinstance(partition, LakePartition)  # noqa: S101 - ours, from partitions()
        with _coded():
            for file in partition.files:
                yield from read_file(file, self._columns, self._snapshot_id)
            if partition.rows:
                yield from pa.ipc.open_stream(partition.rows)


def group_files(files: Sequence[ReadFile]) -> list[list[ReadFile]]:
    """Group files until a task has enough to read; one task per file would cost more.

    >>> from pgtrickle.lake.files.roots import S3Path
    >>> files = [ReadFile(id_, S3Path("s3://lake/f"), 10 * 2**20, False) for id_ in range(5)]
    >>> [[file.id for file in group] for group in group_files(files)]
    [[0, 1, 2], [3, 4]]
    """
    groups: list[list[ReadFile]] = []
    size = 0
    for file in files:
        # The catalog's value may be anything.
        cost = min(max(file.size or 0, 0), _TASK_BYTES) + _FILE_BYTES
        if not groups or size + cost > _TASK_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += cost
    return groups


def _condition(condition: Filter) -> Condition | None:
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return None  # a part of a nested column, or a condition of several
    name = attribute[0]
    if isinstance(condition, IsNull):
        return Condition(name, "null")
    if isinstance(condition, IsNotNull):
        return Condition(name, "not null")
    if isinstance(condition, In):
        return Condition(name, "in", tuple(condition.value))
    if isinstance(condition, EqualNullSafe):
        if condition.value is None:
            return Condition(name, "null")
        return Condition(name, "=", (condition.value,))
    operator = _COMPARED.get(type(condition))
    return None if operator is None else Condition(name, operator, (condition.value,))  # type: ignore[attr-defined]  # all of them have one


def _as_stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


@contextmanager
def _coded() -> Iterator[None]:
    """Put the code and the hint into the message: Spark passes on nothing else."""
    try:
        yield
    except TrickleError as error:
        raise LakeReadError(f"{error.code}: {error}. {error.hint}") from error
