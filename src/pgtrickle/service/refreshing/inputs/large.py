"""Find the inputs of a stage that Spark's executors read, and cut each of them into parts.

An input is large if it holds more bytes than the setting ``large_read_bytes``. The size of a window
is known in advance from the number of its changes, that of a table from its file, unless
PostgreSQL's planner expects the read to return little of it. For a bounded read, for the result of
an earlier stage, and if the planner was wrong, the driver finds out while it reads, and gives up.

Parts are ranges of pages: of a table, of a change buffer and its settled child, of state, and of
the shared copy of an earlier stage's result. If very many keys bound the read of a table, the whole
table is read, since the joins check every condition again; if they are few compared with its rows,
the read follows them by index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from psycopg import Connection

from pgtrickle.binding.planning_bounds import explain_query
from pgtrickle.delta.reads import Read, ReadKind, stage_changes, stage_keys
from pgtrickle.model.report import SourceRead
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.plan.cost.statistics import VALUE_BYTES
from pgtrickle.service.refreshing.inputs.change_window import Window
from pgtrickle.service.refreshing.inputs.small import Marks, carriers_of, cast_read, names_of
from pgtrickle.service.refreshing.snapshot import Snapshot
from pgtrickle.service.refreshing.stages.staging import Staging
from pgtrickle.service.runtime import Runtime
from pgtrickle.spark.executors.large_read import LargeRead, Report, page_count_sql, with_range
from pgtrickle.storage.state_tables import groups_table
from pgtrickle.transit.arrow_reader import SnapshotReader
from pgtrickle.transit.carriers import Carrier
from pgtrickle.transit.decimal_size import decimal_size, probe_sql

_PAGE_BYTES = 8192
# An index finds one row in the time in which a scan reads about this many.
_SCANNED_WHILE_FOUND = 20
_PROBED = (
    Carrier("{}", pa.string(), equality_faithful=True, order_faithful=False),
    Carrier("{}", pa.string(), equality_faithful=True, order_faithful=False),
    Carrier("{}", pa.int32(), equality_faithful=True, order_faithful=True),
)


@dataclass(frozen=True, slots=True)
class LargeInputs:
    """Finds and describes the large inputs of one refresh."""

    runtime: Runtime
    stream_table_id: int
    snapshot: Snapshot
    window: Window
    window_rows: Mapping[str, int]  # weighted rows, by source
    staging: Staging

    def is_large(self, read: Read, sql: str) -> bool:
        """Return whether a read is known in advance to be large, also from its query."""
        limit = self.runtime.settings.large_read_bytes
        if read.kind is ReadKind.CHANGES:
            rows = self.window_rows.get(read.source, 0)
            return rows * VALUE_BYTES * (len(read.columns) + 1) >= limit
        if read.kind is ReadKind.FULL and (relations := self._relations(read)):
            if self._pages(relations) * _PAGE_BYTES < limit:
                return False
            return read.relation is None or self._expected_bytes(read, sql) >= limit
        return False

    def _expected_bytes(self, read: Read, sql: str) -> float:
        """Return the expected bytes of a read of a table, after its filters and projections."""
        seconds = self.runtime.settings.planning_timeout_seconds
        plan = explain_query(self.snapshot.connection, sql, seconds)
        width = max(plan["Plan Width"], VALUE_BYTES * max(len(read.columns), 1))
        return float(plan["Plan Rows"] * width)

    def unbound(self, read: Read, large: Collection[str]) -> Read:
        """Return a read without its bound, if that consists of very many keys.

        ``large`` names the large changes.
        """
        bounding = [array for array in read.key_arrays if array.view in large]
        # Only a process that has read the changes knows the range of a value.
        unknown = any(one.view in large for one in read.ranges)
        if not bounding and not unknown:
            return read
        of_a_stage = any(stage_keys(array.sql) for array in bounding)
        if not unknown and not of_a_stage and self._keys_are_few(read):
            return read
        sql = with_range(read.parts_sql, "true")
        return replace(
            read,
            kind=ReadKind.FULL,
            sql=sql,
            marked_sql=sql,
            key_arrays=(),
            ranges=(),
            bounded_by="nothing: very many keys",
        )

    def describe(
        self, read: Read, sql: str, marks: Marks, reader: SnapshotReader, writer: Connection
    ) -> LargeRead:
        """Describe a read for the executors; ``sql`` is its query in one part."""
        pages, snapshot = 0, self.snapshot.name
        if read.kind is ReadKind.CHANGES:
            reader, snapshot = self.window.reader, self.window.buffers.name
        if read.kind is ReadKind.STAGE:
            shared = self.staging.share_changes(writer, read.source)
            sql = marks.filled(read.parts_sql).replace(
                f"FROM {stage_changes(read.source)} ", f"FROM {shared.sql} ", 1
            )
            pages = self._pages([shared], writer)
        elif read.kind is not ReadKind.KEYED and read.parts_sql:
            sql = marks.filled(read.parts_sql)
            pages = self._pages(self._relations(read))
        carriers = self._sized(reader, read, carriers_of(read), sql)
        return LargeRead(
            cast_read(read, carriers, sql),
            tuple(zip(names_of(read), carriers, strict=True)),
            snapshot,
            relpages=pages,
            report=Report(self.staging.parts(), read.view),
        )

    def _relations(self, read: Read) -> list[QualifiedName]:
        """Return the tables by whose pages a read may be cut."""
        if read.relation is not None:
            children = [settled_of(read.relation)] if read.kind is ReadKind.CHANGES else []
            return [read.relation, *children]
        stored = read.kind in {ReadKind.KEYED, ReadKind.FULL} and bool(read.parts_sql)
        return [groups_table(self.stream_table_id, read.source)] if stored else []

    def _pages(
        self, relations: Sequence[QualifiedName], connection: Connection | None = None
    ) -> int:
        """Return the number of pages of the largest of some tables."""
        connection = connection or self.snapshot.connection
        return max(
            (
                int(connection.execute(trusted(page_count_sql(one))).fetchall()[0][0])
                for one in relations
            ),
            default=0,
        )

    def _keys_are_few(self, read: Read) -> bool:
        """Return whether following the keys of the changes by index is faster than a scan."""
        [(rows,)] = self.snapshot.connection.execute(
            "SELECT COALESCE(max(reltuples), 0) FROM pg_catalog.pg_class WHERE oid = ANY ("
            "SELECT pg_catalog.to_regclass(name)::oid FROM unnest(%s::text[]) AS name)",
            [[relation.sql for relation in self._relations(read)]],
        ).fetchall()
        return bool(sum(self.window_rows.values()) * _SCANNED_WHILE_FOUND < rows)

    def _sized(
        self, reader: SnapshotReader, read: Read, carriers: Sequence[Carrier], sql: str
    ) -> list[Carrier]:
        """Give decimals without declared digits the sizes that hold every value of the read."""
        named = list(zip(names_of(read), carriers, strict=True))
        unsized = [name for name, carrier in named if carrier.arrow is None]
        if not unsized:
            return list(carriers)
        probe = probe_sql(
            [quote_identifier(name) for name in unsized], f"({with_range(sql, 'true')}) AS read"
        )
        # Not on the snapshot's own connection: verify keeps it open, and with it would keep locks
        # on tables that the refresh shares with its executors and drops at its end.
        found = [one[0].as_py() for one in reader.read(probe, _PROBED * len(unsized)).columns]
        sizes = {
            name: decimal_size(*found[3 * i : 3 * i + 3], column=f"{read.source}.{name}")
            for i, name in enumerate(unsized)
        }
        return [
            carrier.sized(*sizes[name]) if name in sizes else carrier for name, carrier in named
        ]


def settled_of(buffer: QualifiedName) -> QualifiedName:
    """Return the child of a change buffer, which every read of the buffer includes."""
    return QualifiedName(buffer.schema, f"{buffer.name}_settled")


def count_large_reads(
    reads: Sequence[Read], large: Mapping[str, LargeRead], rows: Mapping[str, int]
) -> list[SourceRead]:
    """Return the rows of each read of the executors."""
    return [
        SourceRead(
            read.source,
            read.kind.value,
            f"{read.bounded_by}, in {len(large[read.view].partition_queries())} parts",
            rows.get(read.view, 0),
            large[read.view].relpages * _PAGE_BYTES,
        )
        for read in reads
        if read.view in large
    ]
