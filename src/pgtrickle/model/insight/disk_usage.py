"""What a table of a stream table, or of pgtrickle, takes on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class DiskUsage(Shown):
    """One table with its indexes."""

    in_listing: ClassVar[tuple[str, ...]] = ("kind", "name", "stream_table", "bytes", "retention")

    kind: str  # "contents", "state", "buffer", "snapshot", "history", ...
    name: str  # of a buffer: its source
    stream_table: str | None
    bytes: int
    estimated_rows: int  # as PostgreSQL last counted them
    retention: str | None  # the setting that says how long its rows are kept
