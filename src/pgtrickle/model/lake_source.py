"""A lake table whose rows PostgreSQL follows, so that stream tables can read it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from pgtrickle.errors import SettingError
from pgtrickle.model.names import QualifiedName

_ROWS_SCHEMA = "pgtrickle_state"


class CompactionPolicy(Enum):
    """What is done when the lake has forgotten the snapshot that was read last."""

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
    """A column that is followed: which one it is in the lake, and its name in PostgreSQL."""

    id: int
    name: str
    kind: str  # as the catalog of the lake says it

    def to_json(self) -> dict[str, Any]:
        """Return the value stored in the catalog."""
        return {"id": self.id, "name": self.name, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class LakeSource:
    """An attached lake table, and how far it has been read."""

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
    """What following a lake table came to."""

    snapshot_id: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    gap: str | None = None  # why all rows had to be read
