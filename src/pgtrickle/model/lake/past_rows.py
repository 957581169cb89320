"""Rows of a stream table as its copy in the lake had them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgtrickle.model.text.json_values import json_row
from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class PastRows(Shown):
    """Rows of a stream table as of one snapshot of the lake, in no particular order."""

    stream_table: str
    snapshot_id: int
    snapshot_time: datetime
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    complete: bool  # no row was left out

    def to_json(self) -> dict[str, Any]:
        """Return the same as JSON can hold it."""
        return {
            "stream_table": self.stream_table,
            "snapshot_id": self.snapshot_id,
            "snapshot_time": self.snapshot_time.isoformat(),
            "columns": list(self.columns),
            "rows": [json_row(row) for row in self.rows],
            "complete": self.complete,
        }
