"""A dump: every definition of a database, and the rows if they were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from pgtrickle.model.text.shown import Shown

Described: TypeAlias = Mapping[
    str, Any
]  # as the functions of SQL describe it, checked by its shape

FORM = 1  # of the files; another one when an older version could misread them
STREAM_TABLE, VIEW, PLACEHOLDER = "stream table", "view", "placeholder"


@dataclass(frozen=True, slots=True)
class DumpedRows:
    """The file with the rows of one stream table, as COPY writes them."""

    file: Path
    rows: int
    sha256: str
    data_timestamp: datetime


@dataclass(frozen=True, slots=True)
class Dump:
    """Every definition of a database at one moment."""

    described: Described
    rows: Mapping[str, DumpedRows] = field(default_factory=dict)  # by the name of the stream table

    @property
    def items(self) -> Sequence[Described]:
        """The stream tables and the views between them, in an order in which they can be made."""
        items: Sequence[Described] = self.described["items"]
        return items

    @property
    def stream_tables(self) -> list[str]:
        """The names of the stream tables, in that order."""
        return [one["name"] for one in self.items if one["kind"] == STREAM_TABLE]

    @property
    def placeholders(self) -> dict[str, str]:
        """The query with which a member of a circle is made before the others, by its name."""
        return {one["name"]: one["query"] for one in self.items if one["kind"] == PLACEHOLDER}


@dataclass(frozen=True, slots=True)
class WrittenDump(Shown):
    """What was written where."""

    path: str
    format: str
    stream_tables: tuple[str, ...]
    rows: int | None = None  # None: definitions alone


@dataclass(frozen=True, slots=True)
class RestoredItem(Shown):
    """What was done for one stream table, or for a view between two."""

    name: str
    status: str  # created, completed, replaced or unchanged
    rows: int | None = None  # that came with the dump


CREATED, COMPLETED, REPLACED, UNCHANGED = "created", "completed", "replaced", "unchanged"
