"""The verbs by which a user holds the scheduler back, and lets it go on.

The scheduler asks the catalog before each refresh, so nothing here has to reach it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from psycopg import Connection

from pgtrickle.catalog.fuses import get_fuse, reset_fuse, set_fuse
from pgtrickle.catalog.holds import (
    advance_watermark,
    create_watermark_group,
    drain_scheduler,
    drop_watermark_group,
    gate_source,
    is_drained,
    list_holds,
    pause_scheduler,
    resume_scheduler,
    undrain_scheduler,
    ungate_source,
)
from pgtrickle.catalog.refresh_groups import create_refresh_group, drop_refresh_group
from pgtrickle.catalog.stream_tables import get_stream_table, list_stream_tables
from pgtrickle.errors import SettingError, SourceNotFoundError
from pgtrickle.model.fuse import Fuse, FuseMode, check_fuse
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime

_LOOK = 0.1  # seconds between two looks whether everything has come to its end
_FIND_RELID = "SELECT pg_catalog.to_regclass(%(name)s)::pg_catalog.oid"


@dataclass(frozen=True, slots=True)
class Hold:
    """A stream table that the scheduler leaves alone."""

    stream_table: str
    reason: str


class SchedulerControl:
    """These verbs as ``Trickle`` has them; names are given as users write them."""

    _runtime: Runtime

    def _name(self, text: str) -> QualifiedName:
        raise NotImplementedError

    def list_holds(self) -> list[Hold]:
        """Return the stream tables that the scheduler leaves alone, each with a reason."""
        with self._runtime.connection() as connection:
            names = {table.id: str(table.name) for table in list_stream_tables(connection)}
            holds = list_holds(connection).items()
        return sorted(
            (Hold(names[one], reason) for one, reason in holds if one in names),
            key=lambda hold: hold.stream_table,
        )

    def gate_source(self, source: str) -> None:
        """Let the scheduler leave alone who reads a source, while it is being loaded."""
        with self._runtime.connection() as connection:
            gate_source(connection, self._relid(connection, source))

    def ungate_source(self, source: str) -> None:
        """Let the scheduler go on with who reads a source."""
        with self._runtime.connection() as connection:
            ungate_source(connection, self._relid(connection, source))

    def advance_watermark(self, source: str, watermark: datetime) -> None:
        """Record up to when a source is complete; it never goes back."""
        if watermark.tzinfo is None:
            raise SettingError(
                f"the watermark {watermark.isoformat()} has no time zone",
                hint="Add one, such as +00:00 at the end.",
            )
        with self._runtime.connection() as connection:
            advance_watermark(connection, self._relid(connection, source), watermark)

    def create_watermark_group(
        self, name: str, sources: Sequence[str], tolerance_secs: float = 0
    ) -> None:
        """Let who reads several of these sources wait until their watermarks agree."""
        with self._runtime.connection() as connection:
            relids = [self._relid(connection, source) for source in sources]
            create_watermark_group(connection, name, relids, tolerance_secs)

    def drop_watermark_group(self, name: str) -> None:
        """Forget a watermark group."""
        with self._runtime.connection() as connection:
            drop_watermark_group(connection, name)

    def pause_scheduler(self, *names: str) -> None:
        """Let the scheduler leave stream tables alone; what is in flight comes to its end."""
        with self._runtime.connection() as connection:
            pause_scheduler(connection, [one.id for one in self._own(connection, names)])

    def resume_scheduler(self, *names: str) -> None:
        """Let the scheduler go on with stream tables."""
        with self._runtime.connection() as connection:
            resume_scheduler(connection, [one.id for one in self._own(connection, names)])

    def drain(self, timeout: float = 60) -> bool:
        """Let the scheduler begin nothing more; tell whether all came to its end in time."""
        end = time.monotonic() + timeout
        with self._runtime.connection() as connection:
            drain_scheduler(connection)
            while not (drained := is_drained(connection)) and time.monotonic() < end:
                time.sleep(_LOOK)
        return drained

    def undrain(self) -> None:
        """Let the scheduler begin again."""
        with self._runtime.connection() as connection:
            undrain_scheduler(connection)

    def set_fuse(
        self,
        name: str,
        mode: FuseMode,
        *,
        ceiling: int | None = None,
        sensitivity: float | None = None,
    ) -> None:
        """Give a stream table a fuse; what is None stays."""
        check_fuse(Fuse(mode, ceiling, sensitivity))
        with self._runtime.connection() as connection:
            [table] = self._own(connection, [name])
            fuse: Fuse = replace(get_fuse(connection, table.id), mode=mode)
            fuse = fuse if ceiling is None else replace(fuse, ceiling=ceiling)
            fuse = fuse if sensitivity is None else replace(fuse, sensitivity=sensitivity)
            set_fuse(connection, table.id, fuse)

    def reset_fuse(self, name: str, *, reinitialize: bool = False) -> None:
        """Let the next refresh apply what made a fuse blow, or start anew."""
        with self._runtime.connection() as connection:
            [table] = self._own(connection, [name])
            reset_fuse(connection, table.id, reinitialize=reinitialize)

    def create_refresh_group(
        self, name: str, members: Sequence[str], isolation: str = "read_committed"
    ) -> None:
        """Put stream tables into a group; ``repeatable_read`` refreshes them at one moment."""
        with self._runtime.connection() as connection:
            tables = self._own(connection, members)
            create_refresh_group(connection, name, [one.relid for one in tables], isolation)

    def drop_refresh_group(self, name: str) -> None:
        """Forget a refresh group."""
        with self._runtime.connection() as connection:
            drop_refresh_group(connection, name)

    def _relid(self, connection: Connection, source: str) -> int:
        name = self._name(source)
        [(relid,)] = connection.execute(_FIND_RELID, {"name": name.sql}).fetchall()
        if relid is None:
            raise SourceNotFoundError(
                f'the source "{name}" does not exist', hint="Check the name and its schema."
            )
        return int(relid)

    def _own(self, connection: Connection, names: Sequence[str]) -> list[StreamTable]:
        tables = [get_stream_table(connection, self._name(name)) for name in names]
        for table in tables:
            check_owner(connection, table)
        return tables
