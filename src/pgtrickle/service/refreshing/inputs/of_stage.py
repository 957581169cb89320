"""The inputs of a stage: small ones are read here, large ones are left to the executors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from psycopg import Connection

from pgtrickle.delta.reads import KeyArray, Read, ReadKind, fill_ranges
from pgtrickle.errors import ValueOutOfRangeError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.refreshing.inputs.change_keys import consolidate, known_keys, range_condition
from pgtrickle.service.refreshing.inputs.change_window import Window
from pgtrickle.service.refreshing.inputs.large import LargeInputs
from pgtrickle.service.refreshing.inputs.small import (
    Marks,
    carriers_of,
    cast_read,
    fixed_settings,
    marks_of,
    read_inputs,
)
from pgtrickle.service.refreshing.inputs.unseen import TooMuchUnseenError
from pgtrickle.service.refreshing.snapshot import Snapshot
from pgtrickle.service.refreshing.stages.source_versions import alike
from pgtrickle.service.refreshing.stages.staging import Staging
from pgtrickle.service.runtime import Runtime
from pgtrickle.spark.executors.large_read import LargeRead
from pgtrickle.transit.arrow_reader import SnapshotReader
from pgtrickle.transit.carriers import Carrier


@dataclass(frozen=True, slots=True)
class Inputs:
    """The relations of a stage's SQL: tables in memory, and reads by the executors."""

    reads: tuple[Read, ...] = ()  # that produced them
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    large: Mapping[str, LargeRead] = field(default_factory=dict)
    queries: Mapping[str, str] = field(default_factory=dict)  # that were sent, by relation

    def __contains__(self, view: object) -> bool:
        return view in self.tables or view in self.large

    def consolidated(self) -> Inputs:
        """Return the inputs, which are changes, without those in which everything cancels out.

        No process holds a large input as a whole, so it is assumed to have an effect.
        """
        tables = {view: consolidate(table) for view, table in self.tables.items()}
        kept = {view: table for view, table in tables.items() if table.num_rows}
        return Inputs(self.reads, kept, self.large, self.queries)

    def of(self, views: Collection[str], others: Inputs) -> Inputs:
        """Return the inputs of the given names, together with others."""
        tables = {view: table for view, table in self.tables.items() if view in views}
        large = {view: read for view, read in self.large.items() if view in views}
        reads = tuple(read for read in self.reads if read.view in views)
        return Inputs(
            (*reads, *others.reads), {**tables, **others.tables}, {**large, **others.large}
        )


@dataclass(frozen=True, slots=True)
class InputReader:
    """Reads the inputs of one refresh, all at one moment."""

    runtime: Runtime
    stream_table: StreamTable
    snapshot: Snapshot
    window: Window
    reader: SnapshotReader  # of tables and state, under the snapshot
    writer: Connection
    staging: Staging
    window_rows: Mapping[str, int]  # weighted rows, by source
    through_writer: bool = False  # because sources were written in its transaction
    # Earlier reads, by query and form: several stages may need the same.
    remembered: dict[tuple[str, tuple[Carrier, ...]], pa.Table] = field(default_factory=dict)

    def read(self, reads: Sequence[Read], changes: Inputs | None = None) -> Inputs:
        """Read the small inputs and describe the large ones.

        ``changes`` were read before: their values bound the reads.
        """
        changes = changes or Inputs()
        distributed = self._distributed
        large = LargeInputs(
            self.runtime,
            self.stream_table.id,
            self.snapshot,
            self.window,
            self.window_rows,
            self.staging,
        )
        if distributed:
            reads = [large.unbound(read, changes.large) for read in reads]
        texts = self._texts(reads, changes.tables)
        share = partial(self.staging.share_changes, self.writer) if distributed else None
        marks = marks_of(texts.values(), self.window, self.writer, share)
        texts = {view: marks.filled(text) for view, text in texts.items()}
        forms = {read.view: (texts[read.view], carriers_of(read)) for read in reads}
        again = {
            read.view: self.remembered[forms[read.view]]
            for read in reads
            if forms[read.view] in self.remembered
        }
        reads = [read for read in reads if read.view not in again]
        moving = self._read_moving(reads, marks)
        small = {
            read.view: (read, texts[read.view])
            for read in reads
            if read.view not in moving
            if not distributed or not large.is_large(read, texts[read.view])
        }
        found = moving | read_inputs(
            small,
            self.window,
            self.reader,
            self.writer,
            self._limit,
            through_writer=self.through_writer,
        )
        if self.through_writer and None in found.values():
            raise TooMuchUnseenError
        tables = {view: table for view, table in found.items() if table is not None}
        self.remembered.update(
            (forms[read.view], tables[read.view])
            for read in reads
            if read.view in tables and read.kind is not ReadKind.STAGE
        )
        return Inputs(
            tuple(reads),
            {**again, **tables},
            {
                read.view: large.describe(read, texts[read.view], marks, self.reader, self.writer)
                for read in reads
                if found.get(read.view) is None
            },
            {read.view: texts[read.view] for read in reads},
        )

    def _read_moving(self, reads: Sequence[Read], marks: Marks) -> dict[str, pa.Table | None]:
        """Read changes of which one part is in a buffer of the log, and the other in the table.

        A later transaction sees the buffer, and only the snapshot the rows that time has moved.
        """
        found: dict[str, pa.Table | None] = {}
        for read in reads:
            if read.moved_sql and self.window.buffers.upper is not None:
                carriers = carriers_of(read)
                parts = [
                    reader.read(cast_read(read, carriers, marks.filled(sql)), carriers)
                    for reader, sql in (
                        (self.window.reader, read.captured_sql),
                        (self.reader, read.moved_sql),
                    )
                ]
                together = alike([column.name for column in read.columns], *parts)
                if together is None:
                    raise ValueOutOfRangeError(
                        f"numbers of {read.source} need more than 38 digits together",
                        hint="Use engine = 'postgres'.",
                    )
                found[read.view] = pa.concat_tables(together)
        return found

    @property
    def _distributed(self) -> bool:
        return self.runtime.distributes and not self.through_writer

    @property
    def _limit(self) -> int | None:
        """The bytes that one read may bring into this process."""
        if self.through_writer:
            return self.runtime.settings.driver_result_bytes
        return self.runtime.settings.large_read_bytes if self._distributed else None

    def _texts(self, reads: Sequence[Read], changes: Mapping[str, pa.Table]) -> dict[str, str]:
        """Write each query, with the key values that are known."""
        at_hand = known_keys(changes)
        share = self.staging.share_keys if self._distributed else None

        def known(array: KeyArray, *, apart: bool) -> str | None:
            return at_hand(array) or self.window.find_keys(array, share, apart=apart)

        # Readers with these settings parse the values that the writer's connection prints.
        with fixed_settings(self.writer) if self.through_writer else nullcontext():
            return {
                read.view: fill_ranges(
                    read.sql_with(partial(known, apart=self.through_writer and read.state)),
                    [range_condition(one, changes[one.view]) for one in read.ranges],
                )
                for read in reads
            }
