"""Read the changes of a lake table: inserted rows, and ids of deleted rows.

An updated row appears in both, under one id; so does a row that only moved to another file.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pgtrickle.lake.feed.plan import Feed
from pgtrickle.lake.reader.files import dead_positions, read_row_ids, read_versions


def read_new(feed: Feed) -> Iterator[pa.RecordBatch]:
    """Yield the inserted rows that still exist, with their ids as the first column."""
    for file, after in feed.new:
        yield from read_versions(file, feed.columns, feed.until, after)
    yield from feed.inlined


def read_gone(feed: Feed) -> Iterator[int]:
    """Yield the ids of rows whose earlier version no longer exists."""
    for file in feed.ended:
        yield from read_row_ids(file, feed.since)
    for was, now in feed.dying:
        died = {*dead_positions(now, feed.until)}.difference(dead_positions(was, feed.since))
        if died:
            yield from read_row_ids(now, feed.until, frozenset(died))
    yield from feed.inlined_ends
