"""The copy of a stream table in the lake: turned on and off, delivered with each refresh.

A delivery is part of the refresh's own transaction, behind a savepoint.  Where it fails and the
failure mode is ``warn``, only the savepoint is undone: the refresh commits, and what the lake
lacks stays on record, so the next delivery brings exactly that.

A large delivery is one of its own: the refresh commits, and the delivery follows while the stream
table is still claimed (see ``lake_load``).
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.catalog.ducklake_sinks import (
    OpenDelivery,
    close_delivery,
    fail_delivery,
    find_open_delivery,
    find_sink,
    insert_provenance,
    mark_delivery,
    open_delivery,
    update_sink,
)
from pgtrickle.catalog.leases import Lease, check_lease
from pgtrickle.delta.cut import AggregateStage
from pgtrickle.errors import LakeSinkError, Retry, TrickleError
from pgtrickle.lake.deliver import (
    Delivered,
    DeliveryTooLargeError,
    Loading,
    Provenance,
    deliver,
    is_large,
    table_bytes,
)
from pgtrickle.lake.row_map import RowMap, note_changes, pair_updates
from pgtrickle.lake.session import fixed_settings
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.lake_sink import DeliveryStatus, FailureMode, LakeSink
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.compile import Compiled
from pgtrickle.service.lake_errors import lake_errors
from pgtrickle.service.lake_load import SpreadLoad, largest_in_place
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.patience import impatient
from pgtrickle.service.runtime import Runtime
from pgtrickle.settings import Settings
from pgtrickle.sql.scalars import bare_column
from pgtrickle.storage.tracking import Tracking, start_tracking

logger = logging.getLogger(__name__)

_ALERTS = "pg_trickle_alert"
_LONGEST_WAIT_SECONDS = 300.0


def track(connection: Connection, stream_table: StreamTable, compiled: Compiled) -> Tracking | None:
    """Note what the refresh is about to write, if a sink has to follow it row by row."""
    sink = find_sink(connection, stream_table.id)
    if sink is None or sink.needs_load:
        return None
    return start_tracking(connection, key_of(compiled))


def key_of(compiled: Compiled) -> tuple[str, ...]:
    """Return the columns of the result that tell which row took the place of which.

    They are the groups of an aggregate whose rows are the result; empty for other queries, whose
    updates are shown as a delete and an insert.
    """
    rows = compiled.staged.rows
    names = {bare_column(output.scalar): output.name for output in rows.outputs}
    for stage in compiled.staged.stateful:
        if isinstance(stage, AggregateStage) and stage.name == rows.passes_through:
            wanted = [key.name for key in stage.layout.keys]
            return tuple(names[one] for one in wanted) if all(o in names for o in wanted) else ()
    return ()


@dataclass(frozen=True, slots=True)
class LeftDelivery:
    """A delivery that a refresh has left to after its commit, and what it is to tell."""

    columns: tuple[Column, ...]
    refresh_id: int | None
    frontier: Frontier | None


def deliver_refresh(
    runtime: Runtime,
    writer: Connection,
    stream_table: StreamTable,
    sink: LakeSink,
    columns: Sequence[Column],
    tracking: Tracking | None,
    *,
    refresh_id: int,
    frontier: Frontier,
    written: bool,
) -> LeftDelivery | None:
    """Deliver to a sink what a refresh wrote, and what earlier ones left.

    ``written`` says whether the refresh changed rows; ``tracking`` is None if not row by row.
    Returns what the caller has to deliver when the refresh is committed.
    """
    if tracking is not None:
        known = note_changes(writer, RowMap(stream_table.id), tracking.deleted, tracking.inserted)
        if not known:
            sink = replace(sink, needs_load=True)
    elif written:
        sink = replace(sink, needs_load=True)
    update_sink(writer, sink)
    delivery = find_open_delivery(writer, stream_table.id)
    if delivery is None:
        if not written and not sink.needs_load:
            return None
        delivery = open_delivery(writer, stream_table.id)
    if delivery.status is DeliveryStatus.FAILED_PERMANENT or not delivery.due:
        return None
    failure_mode = FailureMode(runtime.settings.ducklake_sink_failure_mode)
    # A refresh that is to fail with its delivery cannot be committed before.
    bounded = failure_mode is FailureMode.WARN
    try:
        attempt_delivery(
            runtime,
            writer,
            stream_table,
            sink,
            columns,
            delivery,
            failure_mode,
            refresh_id=refresh_id,
            frontier=frontier,
            loading=Loading(largest=largest_in_place(runtime) if bounded else None),
        )
    except DeliveryTooLargeError as error:
        update_sink(writer, replace(sink, needs_load=error.all_rows))
        return LeftDelivery(tuple(columns), refresh_id, frontier)
    return None


def deliver_left(
    runtime: Runtime, stream_table: StreamTable, lease: Lease, left: LeftDelivery
) -> None:
    """Do the delivery that a committed refresh has left; the caller holds the lease.

    What fails here is on record as a delivery that is due, and the refresh stays as it is.
    """
    try:
        with runtime.connection() as connection:
            sink = find_sink(connection, stream_table.id)
            delivery = find_open_delivery(connection, stream_table.id)
        if sink is not None and delivery is not None:
            deliver_apart(runtime, stream_table, lease, sink, delivery, left)
    except TrickleError as error:
        logger.warning(
            "could not deliver to the lake after a refresh",
            extra={"stream_table": str(stream_table.name), "code": error.code},
        )


def deliver_apart(
    runtime: Runtime,
    stream_table: StreamTable,
    lease: Lease,
    sink: LakeSink,
    delivery: OpenDelivery,
    left: LeftDelivery,
) -> None:
    """Deliver in a transaction of its own; the caller holds the lease, which is renewed."""
    with (
        keep_lease(runtime, lease),
        runtime.jobs.named(str(stream_table.name)),
        runtime.connection() as connection,
    ):
        spread = not sink.needs_load and _pair_large(runtime, connection, stream_table)
        with connection.transaction():
            attempt_delivery(
                runtime,
                connection,
                stream_table,
                sink,
                left.columns,
                delivery,
                FailureMode.WARN,
                refresh_id=left.refresh_id,
                frontier=left.frontier,
                loading=_loading_apart(runtime, connection, stream_table, spread_new=spread),
            )
            check_lease(connection, stream_table.id, lease.token)


def _pair_large(runtime: Runtime, connection: Connection, stream_table: StreamTable) -> bool:
    """Commit which rows of a large difference are updates, for executors; False if it is small."""
    largest = largest_in_place(runtime)
    if largest is None:
        return False
    rows = RowMap(stream_table.id)
    with connection.transaction(), fixed_settings(connection):
        if not is_large(connection, rows, stream_table.name, largest):
            return False
        pair_updates(connection, rows)
        # Of a table that has just been filled, the server knows nothing to plan the reads by.
        connection.execute(f"ANALYZE {rows.new}".encode())
    return True


def _loading_apart(
    runtime: Runtime, connection: Connection, stream_table: StreamTable, *, spread_new: bool
) -> Loading:
    """Return how a delivery of its own writes; the executors see what its transaction sees now."""
    largest = largest_in_place(runtime)
    if largest is None or table_bytes(connection, stream_table.name) <= largest:
        return Loading()
    # Rows must stay where they are until the commit: this keeps VACUUM FULL and the like away.
    connection.execute(f"LOCK TABLE {stream_table.name.sql} IN ACCESS SHARE MODE".encode())
    [(snapshot,)] = connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchall()
    load = SpreadLoad(runtime.engine, snapshot)
    if not spread_new:
        return Loading(load.write)
    return Loading(load.write, load.write_new, lasting=True)


def attempt_delivery(
    runtime: Runtime,
    writer: Connection,
    stream_table: StreamTable,
    sink: LakeSink,
    columns: Sequence[Column],
    delivery: OpenDelivery,
    failure_mode: FailureMode,
    *,
    refresh_id: int | None,
    frontier: Frontier | None,
    loading: Loading,
) -> Delivered | None:
    """Try a delivery once and record how it went; raises only in the failure mode ``error``.

    Until then the transaction has not touched the row of the delivery, which others are shown.
    A delivery that is too large raises too, and leaves no trace.
    """
    provenance = _describe(stream_table, refresh_id, frontier)
    # The transaction of a diamond could not write a row that another has written meanwhile.
    lasting = loading.lasting or (sink.needs_load and loading.largest is None)
    shown = lasting and _sees_commits_of_others(writer)
    if shown:
        _show(runtime, delivery, DeliveryStatus.WRITING)
    try:
        with lake_errors(), writer.transaction():
            delivered = deliver(writer, sink, stream_table.name, columns, provenance, loading)
            _record(writer, stream_table, sink, delivered, delivery, refresh_id, frontier)
            return delivered
    except TrickleError as error:
        if writer.closed or failure_mode is FailureMode.ERROR:
            if shown:
                _show(runtime, delivery, DeliveryStatus.PENDING)
            raise
        _fail(runtime.settings, writer, stream_table, delivery, refresh_id, error)
    return None


def _show(runtime: Runtime, delivery: OpenDelivery, status: DeliveryStatus) -> None:
    """Say how far a load is, apart from the transaction that does it, which shows nothing yet.

    A delivery that begins with this very refresh is not there for others, and stays unsaid.
    """
    with (
        suppress(TrickleError),
        runtime.connection() as connection,
        impatient(connection, "1s"),  # it is only to be seen
    ):
        mark_delivery(connection, delivery.id, status)


def _sees_commits_of_others(writer: Connection) -> bool:
    [(level,)] = writer.execute("SHOW transaction_isolation").fetchall()
    return bool(level == "read committed")


def _record(
    writer: Connection,
    stream_table: StreamTable,
    sink: LakeSink,
    delivered: Delivered | None,
    delivery: OpenDelivery,
    refresh_id: int | None,
    frontier: Frontier | None,
) -> None:
    rows = deleted = size = 0
    snapshot_id = sink.snapshot_id or 0
    if delivered is not None:
        rows, deleted, size = delivered.rows, delivered.deleted, delivered.size
        snapshot_id = delivered.sink.snapshot_id or 0
        update_sink(writer, delivered.sink)
        insert_provenance(
            writer,
            stream_table,
            snapshot_id=snapshot_id,
            refresh_id=refresh_id,
            frontier=frontier,
            rows=rows + deleted,
        )
    close_delivery(
        writer,
        delivery.id,
        refresh_id=refresh_id,
        rows=rows,
        deleted=deleted,
        size=size,
        snapshot_id=snapshot_id,
    )


def _fail(
    settings: Settings,
    writer: Connection,
    stream_table: StreamTable,
    delivery: OpenDelivery,
    refresh_id: int | None,
    error: TrickleError,
) -> None:
    exhausted = delivery.attempts >= settings.ducklake_sink_max_retries
    permanent = exhausted or (isinstance(error, LakeSinkError) and error.retry is Retry.NEVER)
    longest = min(2.0**delivery.attempts, _LONGEST_WAIT_SECONDS)
    fail_delivery(
        writer,
        delivery.id,
        refresh_id=refresh_id,
        permanent=permanent,
        error=f"{error.code}: {error}",
        # Between half and all of it, so that many sinks do not come back at the same moment.
        wait_seconds=settings.ducklake_sink_retry_seconds * longest * random.uniform(0.5, 1),  # noqa: S311
    )
    logger.warning(
        "could not deliver to the lake",
        extra={"stream_table": str(stream_table.name), "error": str(error)},
    )
    if permanent:
        writer.execute(
            "SELECT pg_catalog.pg_notify(%s, pg_catalog.json_build_object("
            "'event', 'ducklake_sink_failed', 'stream_table', %s::text,"
            " 'attempts', %s::int, 'error', %s::text)::text)",
            [_ALERTS, str(stream_table.name), delivery.attempts + 1, str(error)],
        )


def _describe(
    stream_table: StreamTable, refresh_id: int | None, frontier: Frontier | None
) -> Provenance:
    facts = {
        "stream_table": str(stream_table.name),
        "refresh_id": refresh_id,
        "frontier": None if frontier is None else frontier.to_json(),
    }
    what = "delivery" if refresh_id is None else f"refresh {refresh_id}"
    return Provenance(f"{what} of {stream_table.name}", json.dumps(facts))
