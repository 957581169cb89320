"""``format("pgtrickle")``: outboxes as a data source of Spark, in batches and as a stream.

Offsets are numbers of entries, which never change, so a batch that Spark repeats has the same
rows; with Spark's checkpoint each is in the result once.  A stream may begin with the contents: a
repeated first batch takes back what came after them.  Imported by functions only, since the base
classes cost the import of pyspark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (  # noqa: TID253 - see the module's docstring
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (  # noqa: TID253 - see the module's docstring
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType  # noqa: TID253 - see the module's docstring

from pgtrickle.errors import ChangesGoneError, SettingError
from pgtrickle.service.outboxes.spark_rows import (
    SCHEMA,
    OutboxOptions,
    Part,
    coded,
    commit_for_group,
    find_position,
    plan_parts,
    read_part,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "pgtrickle"


def register_outbox(session: SparkSession) -> None:
    """Let a Spark session read outboxes with the format ``pgtrickle``."""
    session.dataSource.register(OutboxSource)


class OutboxSource(DataSource):
    """The changes of a stream table."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return FORMAT

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        with coded():
            self._read = OutboxOptions.of(dict(self.options))

    def schema(self) -> str:
        """Return the columns in Spark's DDL: the same for every stream table."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Return the reader of a range of entries, or of the contents."""
        return OutboxReader(self._read)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        """Return the reader of a stream."""
        return OutboxStreamReader(self._read)


class PartPartition(InputPartition):
    """The input of one task."""

    def __init__(self, part: Part) -> None:
        super().__init__(None)
        self.part = part


class OutboxReader(DataSourceReader):
    """Reads what the outbox holds when the read is planned."""

    def __init__(self, options: OutboxOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        options = self._options
        with coded():
            position = find_position(options)
            if options.starting == "contents":
                return [PartPartition(Part(position.last_id, position.last_id, contents=True))]
            first = options.first_id(position) + 1
            last = position.last_id if options.ending is None else options.ending
            parts = plan_parts(options, first, min(last, position.last_id))
        return [PartPartition(one) for one in parts] or [PartPartition(Part(1, 0))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one task."""
        assert isinstance(partition, PartPartition)  # noqa: S101 - ours, from partitions()
        with coded():
            yield from read_part(self._options, partition.part)


class OutboxStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the entries between two offsets; each says whether the contents were read before."""

    def __init__(self, options: OutboxOptions) -> None:
        if options.ending is not None:
            raise SettingError(
                "ST501: a stream has no end: ending_id is for spark.read",
                hint="Leave it out.",
            )
        self._options = options
        self._until: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset from which a new query begins."""
        with coded():
            position = find_position(self._options)
            if self._options.starting == "contents":
                return {"stream": position.pgt_id, "id": 0, "contents": False}
            first = self._options.first_id(position)
        return {"stream": position.pgt_id, "id": first, "contents": True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how many entries a batch has at most."""
        most = self._options.max_entries
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note the end, for a query that ends when it has got there."""
        with coded():
            self._until = find_position(self._options).last_id

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return how far the next batch goes; the contents are a batch of their own."""
        with coded():
            position = find_position(self._options)
            self._check(start, position.pgt_id)
        last = position.last_id if self._until is None else min(self._until, position.last_id)
        if not start["contents"]:
            return {"stream": position.pgt_id, "id": last, "contents": True}
        last = max(last, start["id"])
        if isinstance(limit, ReadMaxRows):
            last = min(last, start["id"] + limit.max_rows)
        return {"stream": position.pgt_id, "id": last, "contents": True}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        with coded():
            if not end["contents"]:
                return []
            if not start["contents"]:
                return [PartPartition(Part(end["id"], end["id"], contents=True))]
            self._check(start, find_position(self._options).pgt_id)
            parts = plan_parts(self._options, start["id"] + 1, end["id"])
        return [PartPartition(one) for one in parts]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one task."""
        assert isinstance(partition, PartPartition)  # noqa: S101 - ours, from partitions()
        with coded():
            yield from read_part(self._options, partition.part)

    def commit(self, end: dict[str, Any]) -> None:
        """Let the outbox keep nothing up to here for the query's consumer group, if it has one."""
        if self._options.group is not None and end["contents"]:
            with coded():
                commit_for_group(self._options, end["id"])

    def _check(self, offset: dict[str, Any], pgt_id: int) -> None:
        if offset["stream"] != pgt_id:
            raise ChangesGoneError(
                f'"{self._options.stream_table}" is not the one that the query has followed',
                hint="Begin a new query, with a checkpoint of its own.",
            )
