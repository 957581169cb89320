"""A lake table whose rows PostgreSQL follows, so that stream tables can read it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from pgtrickle.errors import SettingError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown

_ROWS_SCHEMA = "pgtrickle_state"


class CompactionPolicy(Enum):
    """The reaction if the snapshot that was read last has expired in the lake."""

    FALLBACK = "fallback"  # all rows are read, and the difference is applied
    ERROR = "error"


def parse_policy(text: str) -> CompactionPolicy:
    """Read a policy, or raise ST501.

    >>> parse_policy("error")
    <CompactionPolicy.ERROR: 'error'>
    """
    try:
        return CompactionPolicy(text)
    except ValueError:
        raise SettingError(
            f'the compaction policy "{text}" does not exist', hint="Choose fallback or error."
        ) from None


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A followed column: its id in the lake, and its name in PostgreSQL."""

    id: int
    name: str
    kind: str  # as in the lake's catalog

    def to_json(self) -> dict[str, Any]:
        """Return the value stored in the catalog."""
        return {"id": self.id, "name": self.name, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class LakeSource(Shown):
    """An attached lake table, and the snapshot up to which it was read."""

    id: int
    landing: QualifiedName  # the view under which queries read it
    catalog_schema: str
    lake_table: QualifiedName
    table_id: int
    table_uuid: str
    columns: tuple[SourceColumn, ...]
    policy: CompactionPolicy
    snapshot_id: int
    followed_at: datetime | None = None
    last_error: str | None = None
    data_path: str | None = None  # of the catalog when it was attached; None: not on record yet

    @property
    def rows(self) -> QualifiedName:
        """The table that holds the rows with their ids."""
        return rows_table(self.id)


def rows_table(source_id: int) -> QualifiedName:
    """Name the table that holds the rows of an attached lake table.

    >>> str(rows_table(3))
    'pgtrickle_state.landed_3'
    """
    return QualifiedName(_ROWS_SCHEMA, f"landed_{source_id}")


@dataclass(frozen=True, slots=True)
class Followed:
    """The result of following a lake table."""

    snapshot_id: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    gap: str | None = None  # why all rows had to be read
