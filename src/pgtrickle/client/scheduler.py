"""The verbs on the scheduler: what holds it back, and what releases it.

The scheduler asks the catalog before each refresh, so nothing here has to reach it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from psycopg import Connection

from pgtrickle.catalog.overview import (
    list_fuses,
    list_gates,
    list_groups,
    list_hold_reasons,
    list_watermark_groups,
    list_watermarks,
)
from pgtrickle.catalog.scheduling.fuses import get_fuse, reset_fuse, set_fuse
from pgtrickle.catalog.scheduling.holds import (
    advance_watermark,
    create_watermark_group,
    drain_scheduler,
    drop_watermark_group,
    gate_source,
    get_quiesced,
    is_drained,
    pause_scheduler,
    resume_all,
    resume_scheduler,
    undrain_scheduler,
    ungate_source,
)
from pgtrickle.catalog.scheduling.paces import FallingBehind, list_falling_behind
from pgtrickle.catalog.scheduling.refresh_groups import create_refresh_group, drop_refresh_group
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import SettingError, SourceNotFoundError
from pgtrickle.model.scheduling.fuse import Fuse, check_fuse, parse_fuse_mode
from pgtrickle.model.scheduling.refresh_group import DEFAULT_ISOLATION, parse_isolation
from pgtrickle.model.scheduling.service_level import AgreedLevel, parse_sla
from pgtrickle.model.status_report import (
    FuseStatus,
    GateStatus,
    Hold,
    Quiesced,
    RefreshGroup,
    Watermark,
    WatermarkGroup,
)
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import AnyFuseMode, AnyIsolation
from pgtrickle.service.naming import Naming
from pgtrickle.service.ownership import check_owner

_LOOK = 0.1  # seconds between two checks whether all refreshes have ended
_FIND_RELID = "SELECT pg_catalog.to_regclass(%(name)s)::pg_catalog.oid"


class SchedulerVerbs(Naming):
    """Hold back the scheduler, by stream table or source, release it, and see what is held.

    It is ``trickle.scheduler``; ``trickle.run`` runs the scheduler itself.
    """

    def pause_scheduler(self, *names: str) -> None:
        """Hold back stream tables; running refreshes finish."""
        with self._runtime.connection() as connection:
            pause_scheduler(connection, [one.id for one in self._own(connection, names)])

    def resume_scheduler(self, *names: str) -> None:
        """Release stream tables that were paused."""
        with self._runtime.connection() as connection:
            resume_scheduler(connection, [one.id for one in self._own(connection, names)])

    def list_holds(self) -> Listing[Hold]:
        """Return the stream tables that the scheduler does not refresh, with each reason."""
        with self._runtime.connection() as connection:
            return Listing(list_hold_reasons(connection))

    def drain(self, timeout: float = 60) -> bool:
        """Start no more refreshes; return whether all running ones ended in time."""
        end = time.monotonic() + timeout
        with self._runtime.connection() as connection:
            drain_scheduler(connection)
            while not (drained := is_drained(connection)) and time.monotonic() < end:
                time.sleep(_LOOK)
        return drained

    def is_drained(self) -> bool:
        """Return whether the scheduler starts nothing more, and all refreshes have ended."""
        with self._runtime.connection() as connection:
            return is_drained(connection)

    def undrain(self) -> None:
        """Let the scheduler start refreshes again."""
        with self._runtime.connection() as connection:
            undrain_scheduler(connection)

    def quiesce(self, timeout: float = 60) -> Quiesced:
        """Start no more refreshes; wait for the running ones and return which are left.

        It lasts until ``resume_all`` or ``undrain``. Refreshes by hand are not held back.
        """
        self.drain(timeout)
        return self.quiesce_status()

    def quiesce_status(self) -> Quiesced:
        """Return whether the scheduler starts nothing and nothing runs, and what still runs."""
        with self._runtime.connection() as connection:
            return get_quiesced(connection)

    def resume_all(self) -> list[str]:
        """End the drain and every pause; return the names of those that were held back by them."""
        with self._runtime.connection() as connection:
            return resume_all(connection)

    def falling_behind(self) -> Listing[FallingBehind]:
        """Return the stream tables whose refreshes take longer than their intervals."""
        with self._runtime.connection() as connection:
            return Listing(list_falling_behind(connection))

    def gate_source(self, source: str) -> None:
        """Hold back the consumers of a source while it is being loaded."""
        with self._runtime.connection() as connection:
            gate_source(connection, self._relid(connection, source))

    def ungate_source(self, source: str) -> None:
        """Release the consumers of a source."""
        with self._runtime.connection() as connection:
            ungate_source(connection, self._relid(connection, source))

    def bootstrap_gate_status(self) -> Listing[GateStatus]:
        """Return the sources that are or were gated, and their consumers."""
        with self._runtime.connection() as connection:
            return Listing(list_gates(connection))

    def advance_watermark(self, source: str, watermark: datetime) -> None:
        """Record the moment up to which a source is complete; it never moves back."""
        check_watermark(watermark)
        with self._runtime.connection() as connection:
            advance_watermark(connection, self._relid(connection, source), watermark)

    def watermarks(self) -> Listing[Watermark]:
        """Return the watermarks of the sources."""
        with self._runtime.connection() as connection:
            return Listing(list_watermarks(connection))

    def create_watermark_group(
        self, name: str, sources: Sequence[str], tolerance_secs: float = 0
    ) -> None:
        """Hold back the consumers of several of these sources until the watermarks agree."""
        with self._runtime.connection() as connection:
            relids = [self._relid(connection, source) for source in sources]
            create_watermark_group(connection, name, relids, tolerance_secs)

    def drop_watermark_group(self, name: str) -> None:
        """Drop a watermark group."""
        with self._runtime.connection() as connection:
            drop_watermark_group(connection, name)

    def watermark_status(self) -> Listing[WatermarkGroup]:
        """Return the watermark groups, and whether their watermarks agree."""
        with self._runtime.connection() as connection:
            return Listing(list_watermark_groups(connection))

    def set_fuse(
        self,
        name: str,
        mode: AnyFuseMode,
        *,
        ceiling: int | None = None,
        sensitivity: float | None = None,
    ) -> None:
        """Give a stream table a fuse; None leaves a value unchanged."""
        wanted = parse_fuse_mode(mode)
        check_fuse(Fuse(wanted, ceiling, sensitivity))
        with self._runtime.connection() as connection:
            [table] = self._own(connection, [name])
            fuse: Fuse = replace(get_fuse(connection, table.id), mode=wanted)
            fuse = fuse if ceiling is None else replace(fuse, ceiling=ceiling)
            fuse = fuse if sensitivity is None else replace(fuse, sensitivity=sensitivity)
            set_fuse(connection, table.id, fuse)

    def reset_fuse(self, name: str, *, reinitialize: bool = False) -> None:
        """Let the next refresh apply the change that blew a fuse, or reinitialize."""
        with self._runtime.connection() as connection:
            [table] = self._own(connection, [name])
            reset_fuse(connection, table.id, reinitialize=reinitialize)

    def fuse_status(self) -> Listing[FuseStatus]:
        """Return the fuse of each stream table."""
        with self._runtime.connection() as connection:
            return Listing(list_fuses(connection))

    def set_stream_table_sla(self, name: str, sla: str | timedelta | None) -> AgreedLevel:
        """Promise an age that the contents do not exceed; tier and schedule are chosen by it.

        None takes the service level away; tier and schedule stay as they are. ST505 if refreshes
        were measured to take too long for it.
        """
        from pgtrickle.service.scheduling.service_levels import set_stream_table_sla

        seconds = None if sla is None else parse_sla(sla)
        return set_stream_table_sla(self._runtime, self._name(name), seconds)

    def create_refresh_group(
        self, name: str, members: Sequence[str], isolation: AnyIsolation = DEFAULT_ISOLATION
    ) -> None:
        """Put stream tables into a group, to be refreshed at one moment (``repeatable_read``).

        With ``read_committed`` each of them is refreshed on its own.
        """
        with self._runtime.connection() as connection:
            tables = self._own(connection, members)
            relids = [one.relid for one in tables]
            create_refresh_group(connection, name, relids, parse_isolation(isolation).value)

    def drop_refresh_group(self, name: str) -> None:
        """Drop a refresh group."""
        with self._runtime.connection() as connection:
            drop_refresh_group(connection, name)

    def refresh_groups(self) -> Listing[RefreshGroup]:
        """Return the refresh groups and their members."""
        with self._runtime.connection() as connection:
            return Listing(list_groups(connection))

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


def check_watermark(watermark: datetime) -> None:
    """Refuse a moment without a time zone."""
    if watermark.tzinfo is None:
        raise SettingError(
            f"the watermark {watermark.isoformat()} has no time zone",
            hint="Add one, such as +00:00 at the end.",
        )
