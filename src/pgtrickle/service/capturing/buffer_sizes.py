"""Watch the sizes of change buffers: compact, warn, give up consumers or slow down writers."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.capture.compact import compact_buffer, count_rows
from pgtrickle.capture.locks import lock_capture
from pgtrickle.capture.triggers import renew_capture
from pgtrickle.catalog.capture.gaps import insert_gap, list_capture_gaps
from pgtrickle.catalog.capture.health import (
    BufferWatch,
    list_watched,
    send_alert,
    set_alerted,
    set_compacted,
    set_delay,
    set_overfull,
)
from pgtrickle.catalog.capture.snapshot_gaps import insert_snapshot_gaps, list_snapshot_frontiers
from pgtrickle.catalog.dependencies import list_consumer_frontiers, list_dependents
from pgtrickle.catalog.refreshes.leases import find_rival_lease
from pgtrickle.errors import TrickleError
from pgtrickle.service.lock_waits import impatient
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.settings import Settings

_SMALLEST_ROW = 40  # bytes, with PostgreSQL's row header


def watch_buffers(
    runtime: Runtime,
    connection: Connection,
    relids: list[int] | None = None,
    *,
    token: int | None = None,
) -> None:
    """Watch the buffers of these sources, or of all.

    A buffer is counted only if its file could hold enough rows to matter.  ``token`` is that of the
    lease whose refresh has been committed: it does not prevent a compaction.
    """
    # A locked buffer is left for another time: the scheduler must not wait for it.
    with impatient(connection):
        buffers = list_watched(connection, relids)
    for buffer in buffers:
        _Watch(runtime, connection, buffer, token).look()


@dataclass(slots=True)
class _Watch:
    runtime: Runtime
    connection: Connection
    buffer: BufferWatch
    token: int | None

    def look(self) -> None:
        rows = self._count()
        if self._settings.compact_threshold:
            rows -= self._compact(rows)
        self._alert(rows)
        self._limit(rows)

    @property
    def _settings(self) -> Settings:
        return self.runtime.settings

    def _count(self) -> int:
        """Count the rows, up to the highest threshold."""
        settings = self._settings
        thresholds = [
            settings.buffer_alert_threshold,
            settings.max_buffer_rows,
            max(settings.compact_threshold, 2 * self.buffer.compacted_rows),
        ]
        if self.buffer.bytes < _SMALLEST_ROW * min(filter(None, thresholds)):
            return 0
        with impatient(self.connection):
            return count_rows(self.connection, self.buffer.source_relid, max(thresholds) + 1)

    def _compact(self, rows: int) -> int:
        """Compact a buffer that has doubled since the last time, unless a refresh reads it now."""
        relid = self.buffer.source_relid
        if rows < max(self._settings.compact_threshold, 2 * self.buffer.compacted_rows):
            return 0
        try:
            with translated_errors(), self.connection.transaction():
                # Frontiers, leases and rows belong to one moment: a later refresh sees all rows.
                self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                if find_rival_lease(self.connection, relid, self.token):
                    return 0
                frontiers = [
                    one.snapshot for one in list_consumer_frontiers(self.connection, relid)
                ]
                if frontiers:
                    frontiers += list_snapshot_frontiers(self.connection, relid).values()
                gone = compact_buffer(self.connection, relid, frontiers)
                set_compacted(self.connection, relid, rows - gone)
        except TrickleError:
            return 0  # a rival changed something meanwhile: try another time
        return gone

    def _alert(self, rows: int) -> None:
        threshold = self._settings.buffer_alert_threshold
        if rows >= threshold and not self.buffer.alerted:
            with self.connection.transaction():
                set_alerted(self.connection, self.buffer.source_relid, alerted=True)
                send_alert(self.connection, "buffer_growth_warning", self.buffer.source, rows)
        elif self.buffer.alerted and rows < threshold / 2:
            set_alerted(self.connection, self.buffer.source_relid, alerted=False)

    def _limit(self, rows: int) -> None:
        relid, limit = self.buffer.source_relid, self._settings.max_buffer_rows
        if not limit or rows <= limit:
            if self.buffer.overfull:
                set_overfull(self.connection, relid, 0)
            if self.buffer.delay_ms:
                self._delay(0)
            return
        times = self.buffer.overfull + 1
        set_overfull(self.connection, relid, times)
        if times < self._settings.backpressure_consecutive_limit:
            return
        if self._settings.snapshot_keeps_changes and self._give_up_snapshots(rows):
            return
        if not self._settings.enforce_backpressure:
            self._give_up(rows)
        elif not self.buffer.delay_ms:
            self._delay(self._settings.backpressure_delay_ms)
            send_alert(self.connection, "change_buffer_overflow", self.buffer.source, rows)

    def _delay(self, delay_ms: int) -> None:
        """Make the capture functions delay writers, or stop delaying them."""
        with self.connection.transaction():
            lock_capture(self.connection, self.buffer.source_relid)
            set_delay(self.connection, self.buffer.source_relid, delay_ms)
            renew_capture(self.connection, self.buffer.source_relid)

    def _give_up_snapshots(self, rows: int) -> bool:
        """Keep no more changes for snapshots, which give way first; return whether any did."""
        relid = self.buffer.source_relid
        with self.connection.transaction():
            held = list_snapshot_frontiers(self.connection, relid)
            if not held:
                return False
            reason = f"its buffer had more than {self._settings.max_buffer_rows} rows"
            insert_snapshot_gaps(self.connection, list(held), relid, reason)
            set_overfull(self.connection, relid, 0)
            send_alert(self.connection, "change_buffer_overflow", self.buffer.source, rows)
        return True

    def _give_up(self, rows: int) -> None:
        """Make the consumers furthest behind reinitialize, so that the buffer can be trimmed."""
        relid = self.buffer.source_relid
        with self.connection.transaction():
            frontiers = {
                one.id: one.frontier.snapshot.xmax
                for one in list_dependents(self.connection, relid)
                if one.frontier is not None and not list_capture_gaps(self.connection, one.id)
            }
            oldest = min(frontiers.values(), default=None)
            for stream_table_id, xmax in frontiers.items():
                if xmax == oldest:
                    reason = f"its buffer had more than {self._settings.max_buffer_rows} rows"
                    insert_gap(self.connection, relid, reason, stream_table_id)
            set_overfull(self.connection, relid, 0)
            send_alert(self.connection, "change_buffer_overflow", self.buffer.source, rows)
