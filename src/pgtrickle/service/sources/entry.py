"""The entry to sources outside PostgreSQL: what a refresh asks of them, of whichever kind.

A new kind of source is a package beside this module, and a line of ``KINDS``.  Its rows are in a
table of this database, so a refresh only has to bring them up to date, and to know their position.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from psycopg import Connection

from pgtrickle.model.frontier import Position
from pgtrickle.options.stream_table import DUCKLAKE
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sources.ducklake.kind import DuckLakeTables

Kept = Callable[[], AbstractContextManager[None]]


class SourceKind(Protocol):
    """One kind of source outside PostgreSQL."""

    def follow(
        self, runtime: Runtime, relids: Collection[int], kept: Kept
    ) -> Sequence[tuple[str, int]]:
        """Bring the sources among these relations up to date; return their names and positions.

        ``kept`` is entered while there is much to do.
        """
        ...

    def positions(
        self, connection: Connection, relids: Collection[int]
    ) -> Sequence[tuple[str, int]]:
        """Return the sources among these relations, and the positions that a session sees."""
        ...


KINDS: Final[Mapping[str, SourceKind]] = {DUCKLAKE: DuckLakeTables()}


def follow_sources(runtime: Runtime, relids: Collection[int], kept: Kept) -> tuple[Position, ...]:
    """Bring every source outside PostgreSQL up to date before it is read; return the positions."""
    return _sorted({name: kind.follow(runtime, relids, kept) for name, kind in KINDS.items()})


def list_positions(connection: Connection, relids: Collection[int]) -> tuple[Position, ...]:
    """Return the positions of the sources outside PostgreSQL, as a frontier records them."""
    return _sorted({name: kind.positions(connection, relids) for name, kind in KINDS.items()})


def _sorted(found: Mapping[str, Sequence[tuple[str, int]]]) -> tuple[Position, ...]:
    return tuple(
        sorted(Position(kind, name, at) for kind, sources in found.items() for name, at in sources)
    )
