"""What a demo consists of: tables, stream tables, somebody who changes rows, something to see."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg import Connection

if TYPE_CHECKING:
    from pgtrickle.client.trickle import Trickle
    from pgtrickle.demo.generator import Changes, Generator
    from pgtrickle.demo.live import Display


@dataclass(frozen=True, slots=True)
class Definition:
    """A stream table of a demo."""

    name: str
    kind: str
    query: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Show:
    """A demo: subclasses fill in what is theirs."""

    rows: str  # what is loaded, in the plural
    size: int  # how many of them, unless somebody says so
    seconds: float = 20
    definitions: tuple[Definition, ...]
    board: tuple[str, str] | None = None  # a title and a query, shown while rows change
    page: bool = False  # whether the board is shown on a page, too

    def open(self, home: Path) -> AbstractContextManager[object]:
        """Make what the demo needs outside the database, and remove it at the end."""
        del home
        return nullcontext()

    def load(self, connection: Connection, size: int) -> None:
        """Create the tables and fill them."""
        raise NotImplementedError

    def writer(self, dsn: str, seed: int, size: int, changes: Changes) -> Generator:
        """Return who changes rows."""
        raise NotImplementedError

    def prepare(self, trickle: Trickle, display: Display) -> None:
        """Do what is to be done after the stream tables have been created."""
        del trickle, display

    def close(self, trickle: Trickle, display: Display) -> bool:
        """Do what is shown at the end; tell whether it is right."""
        del trickle, display
        return True
