"""Attached lake tables as a kind of source; a position is the number of a snapshot.

Following one takes Arrow, which is imported when there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager

from psycopg import Connection

from pgtrickle.catalog.lake.sources import list_sources_among
from pgtrickle.model.lake.source import LakeSource
from pgtrickle.service.runtime import Runtime


class DuckLakeTables:
    """The lake tables that are attached to this database."""

    def follow(
        self,
        runtime: Runtime,
        relids: Collection[int],
        kept: Callable[[], AbstractContextManager[None]],
    ) -> Sequence[tuple[str, int]]:
        """Follow the lake tables whose rows are among these relations, before they are read.

        Raises why one cannot be followed.
        """
        with runtime.connection() as connection:
            sources = list_sources_among(connection, relids)
        if sources:
            from pgtrickle.service.sources.ducklake.follow import (  # noqa: PLC0415 - see above
                follow_behind,
            )

            follow_behind(runtime, sources, kept)
        return _positions(sources)

    def positions(
        self, connection: Connection, relids: Collection[int]
    ) -> Sequence[tuple[str, int]]:
        """Return the lake tables whose rows are among these relations, and their snapshots."""
        return _positions(list_sources_among(connection, relids))


def _positions(sources: Sequence[LakeSource]) -> list[tuple[str, int]]:
    return [(str(source.landing), source.snapshot_id) for source in sources]
