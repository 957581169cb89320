"""DuckLake as a kind of sink.

Writing to a lake takes Arrow, which is imported with the first lake: most refreshes have none, and
the import takes longer than a small refresh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from psycopg import Connection

from pgtrickle.catalog.lake.sinks import find_sink, update_sink
from pgtrickle.catalog.refreshes.leases import Lease
from pgtrickle.model.lake.sink import LakeSink
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.stream_table import SinkOptions
from pgtrickle.service.compile import Compiled
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.kind import Copy, Delivery, Kept
from pgtrickle.storage.tracking import Tracking, start_tracking


@dataclass(frozen=True, slots=True)
class LakeCopy:
    """The copy of a stream table in a lake."""

    sink: LakeSink

    def deliver(
        self,
        runtime: Runtime,
        writer: Connection,
        delivery: Delivery,
        tracking: Tracking | None,
        *,
        written: bool,
    ) -> Callable[[Lease], None] | None:
        """Deliver to the lake; see ``deliver_refresh``."""
        from pgtrickle.service.sinks.ducklake.delivery import (  # noqa: PLC0415 - see above
            deliver_left,
            deliver_refresh,
        )

        left = deliver_refresh(runtime, writer, self.sink, delivery, tracking, written=written)
        if left is None:
            return None
        return lambda lease: deliver_left(runtime, lease, left)

    def load_anew(self, writer: Connection) -> None:
        """Have the lake table made anew by the next delivery."""
        update_sink(writer, replace(self.sink, needs_load=True))

    def track(self, writer: Connection, compiled: Compiled) -> Tracking | None:
        """Record the written rows, unless the lake gets all rows anyway."""
        from pgtrickle.service.sinks.ducklake.delivery import key_of  # noqa: PLC0415 - see above

        return None if self.sink.needs_load else start_tracking(writer, key_of(compiled))

    def bring_up_to_date(self, runtime: Runtime, lease: Lease, delivery: Delivery) -> None:
        """Deliver what the lake lacks."""
        from pgtrickle.service.sinks.ducklake.snapshots import (  # noqa: PLC0415 - see above
            bring_up_to_date,
        )

        bring_up_to_date(runtime, lease, delivery.stream_table, delivery.columns)

    def keep(self, writer: Connection, delivery: Delivery) -> Kept:
        """Check that the lake gives back each row as it is."""
        from pgtrickle.service.sinks.ducklake.snapshots import keep_copy  # noqa: PLC0415 - see above

        return keep_copy(writer, delivery.stream_table, delivery.columns)


class DuckLake:
    """DuckLake: Parquet files, and a catalog that is itself in PostgreSQL."""

    def enable(
        self,
        runtime: Runtime,
        connection: Connection,
        stream_table: StreamTable,
        options: SinkOptions,
    ) -> None:
        """Give a stream table a lake table."""
        from pgtrickle.service.sinks.ducklake.copies import enable_sink  # noqa: PLC0415 - see above

        enable_sink(runtime, connection, stream_table, options)

    def disable(
        self, connection: Connection, stream_table: StreamTable, *, drop: bool
    ) -> list[Callable[[], None]]:
        """Take the lake table away; one in another database ends after the commit."""
        if find_sink(connection, stream_table.id) is None:
            return []
        from pgtrickle.service.sinks.ducklake.copies import (  # noqa: PLC0415 - see above
            disable_sink,
            end_copy,
        )

        ending = disable_sink(connection, stream_table, drop=drop)
        return [] if ending is None else [partial(end_copy, ending)]

    def find(self, connection: Connection, stream_table: StreamTable) -> Copy | None:
        """Return the lake copy of a stream table."""
        sink = find_sink(connection, stream_table.id)
        return None if sink is None else LakeCopy(sink)

    def retry(self, runtime: Runtime, name: QualifiedName) -> None:
        """Deliver now what the lake lacks, however often that failed before."""
        from pgtrickle.service.sinks.ducklake.copies import (  # noqa: PLC0415 - see above
            retry_delivery,
        )

        retry_delivery(runtime, name)
