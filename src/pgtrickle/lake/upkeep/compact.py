"""Make a lake table cheap to read again: few files, and few deletes in the catalog.

Every refresh adds a small file and some deletes; a reader opens all files and reads all deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.table_layout import find_columns
from pgtrickle.lake.format.tables import LakeTable, find_head, find_table, foreign_changes
from pgtrickle.lake.upkeep.merge_files import commit_merged, write_merged
from pgtrickle.lake.upkeep.small_files import by_partition, find_small_files
from pgtrickle.lake.write.commit import begin_commit
from pgtrickle.lake.write.commit_turns import AUTHOR
from pgtrickle.lake.write.delete_rows import INLINE_LIMIT, count_inlined, flush_deletes
from pgtrickle.lake.write.deliver import nothing_new, own_author
from pgtrickle.lake.write.endpoints import Ends
from pgtrickle.lake.write.row_map import RowMap, forget_covered
from pgtrickle.lake.write.row_map_backup import set_aside_runs
from pgtrickle.lake.write.text_settings import fixed_settings
from pgtrickle.lake.write.write_rows import Written
from pgtrickle.model.lake.sink import LakeSink
from pgtrickle.model.sql_type import Column


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of compaction; ``sink`` is the new state of the sink."""

    sink: LakeSink
    merged: int = 0  # files that were merged into one, in each partition
    flushed: int = 0  # deletes that moved from the catalog into files
    first_file_id: int | None = None  # files from this id on are new; None: there is no snapshot
    paths: tuple[str, ...] = ()  # of the new files


def compact(
    ends: Ends,
    catalog: LakeCatalog,
    sink: LakeSink,
    columns: Sequence[Column],
    extra_info: str | None = None,
) -> Compacted:
    """Compact the lake table of a sink, inside the caller's transactions.

    A table that must be loaded again, or that other clients have written to, is not compacted.
    """
    connection = ends.lake
    with fixed_settings(ends.local):
        table = find_table(connection, catalog, sink.lake_table)
        known = None if table is None else find_columns(table, columns)
        if table is None or known is None or table.id != sink.table_id or sink.needs_load:
            return Compacted(sink)
        rows = RowMap(sink.stream_table_id)
        if ends.apart and not nothing_new(ends.local, rows):
            return Compacted(sink)  # deleted rows could not be moved back
        small = find_small_files(connection, catalog, table)
        written = Written(catalog.place(table.directory))
        try:
            groups = by_partition(small)
            found = [write_merged(connection, catalog, table, g, known, written) for g in groups]
            mergings = [one for one in found if one is not None]
            many = count_inlined(connection, catalog, table.id) > INLINE_LIMIT
            if not mergings and not many:
                return Compacted(_look_ahead(ends, catalog, table, sink))
            commit = begin_commit(connection, catalog)
            first_file_id = commit.next_file_id
            if (
                _others_wrote(ends, catalog, table, sink)
                or find_small_files(connection, catalog, table) != small
            ):
                written.remove()
                return Compacted(sink)
            if ends.apart:
                merged_ids = [file.id for merging in mergings for file in merging.files]
                set_aside_runs(ends.local, rows, merged_ids)
            for merging in mergings:
                commit_merged(commit, table, merging, ends.local, rows, written)
            flushed = flush_deletes(commit, table, written) if many else 0
            forget_covered(ends.local, rows)
            message = f"compaction of {sink.lake_table}"
            snapshot_id = commit.finish(author=AUTHOR, message=message, extra_info=extra_info)
        except BaseException:
            written.remove()
            raise
    merged = sum(len(merging.files) for merging in mergings)
    paths = tuple(str(path) for path in written.paths)
    return Compacted(replace(sink, snapshot_id=snapshot_id), merged, flushed, first_file_id, paths)


def _look_ahead(ends: Ends, catalog: LakeCatalog, table: LakeTable, sink: LakeSink) -> LakeSink:
    """Record the last snapshot without foreign writes, so that snapshots may expire."""
    head = find_head(ends.lake, catalog)
    if _others_wrote(ends, catalog, table, sink):
        return sink
    return replace(sink, snapshot_id=head)


def _others_wrote(ends: Ends, catalog: LakeCatalog, table: LakeTable, sink: LakeSink) -> bool:
    after, author = sink.snapshot_id or 0, own_author(ends)
    return bool(foreign_changes(ends.lake, catalog, table.id, after=after, author=author))
