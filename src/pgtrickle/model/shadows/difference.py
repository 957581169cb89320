"""How a shadow differs from its stream table, in rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgtrickle.model.table_snapshot import RowChange
from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class ShadowDiff(Shown):
    """What readers of a stream table would see change if its shadow took its place."""

    stream_table: str
    same_moment: bool  # whether both hold the rows of one moment
    data_timestamp: datetime | None  # of which the present rows are
    shadow_data_timestamp: datetime | None
    note: str | None  # why the present rows could not be brought to the shadow's moment
    columns_added: tuple[str, ...]
    columns_dropped: tuple[str, ...]
    columns_retyped: tuple[str, ...]  # such as: v is integer, and would be bigint
    compared_columns: tuple[str, ...]  # those that both have, with one type
    rows: int
    shadow_rows: int
    rows_added: int  # of all changes, also of those that are not listed
    rows_removed: int
    changes: tuple[RowChange, ...]

    @property
    def same(self) -> bool:
        """Whether readers would notice nothing."""
        columns = self.columns_added or self.columns_dropped or self.columns_retyped
        return not (self.rows_added or self.rows_removed or columns)

    @property
    def complete(self) -> bool:
        """Whether all changes of rows are listed."""
        return sum(one.copies for one in self.changes) == self.rows_added + self.rows_removed


def read_difference(found: dict[str, Any]) -> ShadowDiff:
    """Read what an answer of the daemon says."""
    moments = (found["data_timestamp"], found["shadow_data_timestamp"])
    at, shadow_at = (None if one is None else datetime.fromisoformat(one) for one in moments)
    return ShadowDiff(
        found["stream_table"],
        found["same_moment"],
        at,
        shadow_at,
        found["note"],
        tuple(found["columns_added"]),
        tuple(found["columns_dropped"]),
        tuple(found["columns_retyped"]),
        tuple(found["compared_columns"]),
        found["rows"],
        found["shadow_rows"],
        found["rows_added"],
        found["rows_removed"],
        tuple(RowChange(one["change"], one["copies"], one["row"]) for one in found["changes"]),
    )
