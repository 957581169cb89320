"""A snapshot of a stream table: its rows and its state at one frontier."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from pgtrickle.model.frontier import Frontier
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown

SNAPSHOT_VERSION = 1  # of the form in which rows and state are kept
_LONGEST_NAME = 63  # bytes of a name in PostgreSQL


@dataclass(frozen=True, slots=True)
class ListedSnapshot(Shown):
    """A snapshot as lists show it."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "stream_table",
        "snapshot_schema",
        "snapshot_table",
        "data_timestamp",
        "row_count",
        "size_bytes",
        "lake_table",
        "lake_snapshot",
        "gap",
    )

    stream_table: str
    snapshot_schema: str
    snapshot_table: str
    created_at: datetime
    data_timestamp: datetime  # the moment of which the rows are
    row_count: int
    size_bytes: int  # with its state
    frontier: dict[str, Any]
    version: int | None
    gap: str | None  # why the refresh after a restore reinitializes, or why there can be none
    lake_table: str | None = None  # that has the rows; None: a table of PostgreSQL has them
    lake_snapshot: int | None = None
    restorable: bool = True

    @property
    def table(self) -> QualifiedName:
        """The table that holds its rows, or only its name if a lake has them."""
        return QualifiedName(self.snapshot_schema, self.snapshot_table)


@dataclass(frozen=True, slots=True)
class Copied:
    """How the rows of a snapshot were copied; the transactions are as rows name them: 32 bits."""

    settled_before: int  # all transactions before this one had ended
    by: int  # the transaction that wrote the copy
    rows: int


@dataclass(frozen=True, slots=True)
class LakePlace:
    """Where a lake has the rows of a snapshot, and by what they are known to be the same."""

    catalog_schema: str
    data_path: str
    sink_path: str | None
    table: QualifiedName
    table_id: int
    table_uuid: str
    snapshot_id: int
    columns: tuple[tuple[str, str], ...]  # of the stream table, with their types and collations
    rows: int
    checksum: Decimal


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A snapshot as the catalog describes it."""

    id: int
    stream_table_id: int
    relid: int | None  # of the table with its rows; None: somebody dropped that, or a lake has them
    table: QualifiedName
    version: int | None
    defining_query: str
    frontier: Frontier
    data_timestamp: datetime
    plan: dict[str, Any] | None
    needs_reinit: bool
    rows: int
    lake: LakePlace | None = None


@dataclass(frozen=True, slots=True)
class RowChange(Shown):
    """A row that one of two snapshots has and the other lacks."""

    change: str  # added or removed
    copies: int  # how many more there are, or how many fewer
    row: dict[str, Any]  # numbers with a point are Decimals, exact; most other values are text


@dataclass(frozen=True, slots=True)
class SnapshotDiff(Shown):
    """How the rows of a stream table differ between two snapshots."""

    before: str
    after: str | None  # None: the present rows
    rows_added: int  # of all changes, also of those that are not listed
    rows_removed: int
    changes: tuple[RowChange, ...]

    @property
    def complete(self) -> bool:
        """Whether all changes are listed."""
        return sum(one.copies for one in self.changes) == self.rows_added + self.rows_removed


def default_snapshot_name(stream_table: QualifiedName, epoch_ms: int) -> QualifiedName:
    """Return the name of a snapshot that was given none.

    >>> str(default_snapshot_name(QualifiedName("public", "revenue"), 1700000000000))
    'public.snapshot_revenue_1700000000000'
    >>> name = default_snapshot_name(QualifiedName("public", "é" * 31), 1700000000000).name
    >>> len(name.encode()), name.endswith("é_1700000000000")
    (63, True)
    """
    begin, end = "snapshot_", f"_{epoch_ms}"
    room = _LONGEST_NAME - len(begin) - len(end)
    kept = stream_table.name.encode()[:room].decode(errors="ignore")
    return QualifiedName(stream_table.schema, f"{begin}{kept}{end}")
