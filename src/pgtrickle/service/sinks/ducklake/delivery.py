"""Deliver to the copy of a stream table in the lake, with each refresh or apart from one.

A delivery is part of the refresh's own transaction, behind a savepoint.  Where it fails and the
failure mode is ``warn``, only the savepoint is undone: the refresh commits, and what the lake
lacks stays on record, so the next delivery brings exactly that.

A large delivery is one of its own: the refresh commits, and the delivery follows while the stream
table is still claimed (see ``load.py``).  So is every delivery to a catalog in another database
(see ``other_database.py``).
"""

from __future__ import annotations

import json
import logging
import uuid
from contextlib import suppress
from dataclasses import replace

from psycopg import Connection

from pgtrickle.catalog.lake.intents import insert_intent
from pgtrickle.catalog.lake.sinks import (
    OpenDelivery,
    close_delivery,
    find_open_delivery,
    find_sink,
    insert_provenance,
    mark_delivery,
    open_delivery,
    update_sink,
)
from pgtrickle.catalog.refreshes.leases import Lease, check_lease
from pgtrickle.delta.cut import AggregateStage
from pgtrickle.errors import LeaseLostError, TrickleError
from pgtrickle.lake.write.deliver import (
    Delivered,
    DeliveryTooLargeError,
    Loading,
    Provenance,
    deliver,
    is_large,
    nothing_new,
    open_catalog,
    table_bytes,
)
from pgtrickle.lake.write.endpoints import Ends
from pgtrickle.lake.write.row_map import RowMap, note_changes, pair_updates
from pgtrickle.lake.write.text_settings import fixed_settings
from pgtrickle.model.lake.sink import DeliveryStatus, FailureMode, Intent, LakeSink
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.trusted import trusted
from pgtrickle.model.version import VERSION
from pgtrickle.service.compile import Compiled
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.lock_waits import impatient
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.errors import lake_errors
from pgtrickle.service.sinks.ducklake.failures import note_failed_delivery
from pgtrickle.service.sinks.ducklake.load import SpreadLoad, largest_in_place
from pgtrickle.service.sinks.ducklake.other_database import (
    confirm,
    describe_before,
    lake_transaction,
    opened,
    settle,
)
from pgtrickle.service.sinks.kind import Delivery
from pgtrickle.sql.scalars import bare_column
from pgtrickle.storage.tracking import Tracking

logger = logging.getLogger(__name__)


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


def deliver_refresh(
    runtime: Runtime,
    writer: Connection,
    sink: LakeSink,
    delivery: Delivery,
    tracking: Tracking | None,
    *,
    written: bool,
) -> Delivery | None:
    """Deliver to a sink what a refresh wrote, and what earlier ones left.

    ``written`` says whether the refresh changed rows; ``tracking`` is None if not row by row.
    Returns what the caller has to deliver when the refresh is committed.
    """
    stream_table = delivery.stream_table
    if tracking is not None:
        known = note_changes(writer, RowMap(stream_table.id), tracking.deleted, tracking.inserted)
        if not known:
            sink = replace(sink, needs_load=True)
    elif written:
        sink = replace(sink, needs_load=True)
    update_sink(writer, sink)
    record = find_open_delivery(writer, stream_table.id)
    if record is None:
        if not written and not sink.needs_load:
            return None
        record = open_delivery(writer, stream_table.id)
    if record.status is DeliveryStatus.FAILED_PERMANENT or not record.due:
        return None
    if sink.elsewhere or delivery.after_commit:
        return delivery
    failure_mode = FailureMode(runtime.settings.ducklake_sink_failure_mode)
    # A refresh that is to fail with its delivery cannot be committed before.
    bounded = failure_mode is FailureMode.WARN
    try:
        loading = Loading(
            largest=largest_in_place(runtime) if bounded else None,
            file_mode=runtime.settings.lake_file_mode,
        )
        attempt_delivery(runtime, writer, sink, record, delivery, failure_mode, loading)
    except DeliveryTooLargeError as error:
        update_sink(writer, replace(sink, needs_load=error.all_rows))
        return delivery
    return None


def deliver_left(runtime: Runtime, lease: Lease, delivery: Delivery) -> None:
    """Do the delivery that a committed refresh has left; the caller holds the lease.

    What fails here is on record as a delivery that is due, and the refresh stays as it is.
    """
    stream_table = delivery.stream_table
    try:
        with runtime.connection() as connection:
            sink = find_sink(connection, stream_table.id)
            record = find_open_delivery(connection, stream_table.id)
        if sink is not None and record is not None:
            deliver_apart(runtime, lease, sink, record, delivery)
    except TrickleError as error:
        logger.warning(
            "could not deliver to the lake after a refresh",
            extra={"stream_table": str(stream_table.name), "code": error.code},
        )


def deliver_apart(
    runtime: Runtime, lease: Lease, sink: LakeSink, record: OpenDelivery, delivery: Delivery
) -> None:
    """Deliver in a transaction of its own; the caller holds the lease, which is renewed."""
    stream_table = delivery.stream_table
    if sink.elsewhere:
        with keep_lease(runtime, lease), runtime.jobs.named(str(stream_table.name)):
            _deliver_elsewhere(runtime, lease, sink, record, delivery)
        return
    with (
        keep_lease(runtime, lease),
        runtime.jobs.named(str(stream_table.name)),
        runtime.connection() as connection,
    ):
        spread = not sink.needs_load and _pair_large(runtime, connection, stream_table)
        with connection.transaction():
            loading = _loading_apart(runtime, connection, stream_table, spread_new=spread)
            attempt_delivery(runtime, connection, sink, record, delivery, FailureMode.WARN, loading)
            check_lease(connection, stream_table.id, lease.token)


def _deliver_elsewhere(
    runtime: Runtime, lease: Lease, sink: LakeSink, record: OpenDelivery, delivery: Delivery
) -> None:
    """Deliver to a catalog in another database, and record a failure.

    A commit of an earlier delivery that is in doubt is settled first, and may have been all.
    """
    stream_table = delivery.stream_table
    with runtime.connection() as local:
        try:
            with lake_errors(), opened(sink.catalog_dsn, local) as ends:
                if settle(ends, stream_table, sink):
                    found = _find_rest(local, stream_table)
                    if found is None:
                        return
                    sink, record = found
                spread = not sink.needs_load and _pair_large(runtime, local, stream_table)
                if sink.needs_load or spread:
                    mark_delivery(local, record.id, DeliveryStatus.WRITING)
                intent = commit_elsewhere(
                    runtime, ends, lease, sink, record, delivery, spread_new=spread
                )
                if intent is not None:
                    confirm(local, stream_table, intent)
        except LeaseLostError:
            raise
        except TrickleError as error:
            if local.closed:
                raise
            with local.transaction():
                note_failed_delivery(
                    runtime.settings, local, stream_table, record, delivery.refresh_id, error
                )


def _find_rest(
    local: Connection, stream_table: StreamTable
) -> tuple[LakeSink, OpenDelivery] | None:
    """Return what is still to be delivered, now that an earlier delivery is settled."""
    sink = find_sink(local, stream_table.id)
    if sink is None:
        return None
    record = find_open_delivery(local, stream_table.id)
    if record is None:
        if not sink.needs_load and nothing_new(local, RowMap(stream_table.id)):
            return None
        record = open_delivery(local, stream_table.id)
    return sink, record


def commit_elsewhere(
    runtime: Runtime,
    ends: Ends,
    lease: Lease,
    sink: LakeSink,
    record: OpenDelivery,
    delivery: Delivery,
    *,
    spread_new: bool,
) -> Intent | None:
    """Commit a delivery here, as an intent, and then there; None if there was nothing to deliver.

    When this fails, the intent may be on record, and its snapshot committed or not.
    """
    with lake_transaction(ends):
        open_catalog(ends.lake, sink)  # a new one must be there for all, if only this commits
    with lake_transaction(ends):
        return commit_intent(runtime, ends, lease, sink, record, delivery, spread_new=spread_new)


def commit_intent(
    runtime: Runtime,
    ends: Ends,
    lease: Lease,
    sink: LakeSink,
    record: OpenDelivery,
    delivery: Delivery,
    *,
    spread_new: bool,
) -> Intent | None:
    """Write what the lake lacks, inside the transaction of its catalog, and commit that here."""
    local, token, stream_table = ends.local, uuid.uuid4().hex, delivery.stream_table
    with local.transaction():
        provenance = _describe(delivery, token)
        loading = _loading_apart(runtime, local, stream_table, spread_new=spread_new)
        delivered = deliver(ends, sink, stream_table.name, delivery.columns, provenance, loading)
        check_lease(local, stream_table.id, lease.token)
        if delivered is None:
            _close(local, sink, None, record, delivery)
            return None
        intent = Intent(
            stream_table.id,
            token,
            delivered.sink.snapshot_id or 0,
            delivered.first_file_id,
            delivered.paths,
            delivered.loaded,
            describe_before(sink),
            record.id,
            delivery.refresh_id,
            delivery.frontier,
            delivered.rows,
            delivered.deleted,
            delivered.size,
        )
        update_sink(local, delivered.sink)
        insert_intent(local, intent)
    return intent


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
        connection.execute(trusted(f"ANALYZE {rows.new}"))
    return True


def _loading_apart(
    runtime: Runtime, connection: Connection, stream_table: StreamTable, *, spread_new: bool
) -> Loading:
    """Return how a delivery of its own writes; the executors see what its transaction sees now."""
    largest, mode = largest_in_place(runtime), runtime.settings.lake_file_mode
    if largest is None or table_bytes(connection, stream_table.name) <= largest:
        return Loading(file_mode=mode)
    # Rows must stay where they are until the commit: this keeps VACUUM FULL and the like away.
    connection.execute(trusted(f"LOCK TABLE {stream_table.name.sql} IN ACCESS SHARE MODE"))
    [(snapshot,)] = connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchall()
    load = SpreadLoad(runtime.engine, snapshot)
    if not spread_new:
        return Loading(load.write, file_mode=mode)
    return Loading(load.write, load.write_new, lasting=True, file_mode=mode)


def attempt_delivery(
    runtime: Runtime,
    writer: Connection,
    sink: LakeSink,
    record: OpenDelivery,
    delivery: Delivery,
    failure_mode: FailureMode,
    loading: Loading,
) -> Delivered | None:
    """Try a delivery once and record how it went; raises only in the failure mode ``error``.

    Until then the transaction has not touched the row of the delivery, which others are shown.
    A delivery that is too large raises too, and leaves no trace.
    """
    stream_table, provenance = delivery.stream_table, _describe(delivery)
    # The transaction of a diamond could not write a row that another has written meanwhile.
    lasting = loading.lasting or (sink.needs_load and loading.largest is None)
    shown = lasting and _sees_commits_of_others(writer)
    if shown:
        _show(runtime, record, DeliveryStatus.WRITING)
    try:
        with lake_errors(), writer.transaction():
            ends = Ends(writer, writer)
            delivered = deliver(
                ends, sink, stream_table.name, delivery.columns, provenance, loading
            )
            _close(writer, sink, delivered, record, delivery)
            return delivered
    except TrickleError as error:
        if writer.closed or failure_mode is FailureMode.ERROR:
            if shown:
                _show(runtime, record, DeliveryStatus.PENDING)
            raise
        note_failed_delivery(
            runtime.settings, writer, stream_table, record, delivery.refresh_id, error
        )
    return None


def _show(runtime: Runtime, record: OpenDelivery, status: DeliveryStatus) -> None:
    """Say how far a load is, apart from the transaction that does it, which shows nothing yet.

    A delivery that begins with this very refresh is not there for others, and stays unsaid.
    """
    with (
        suppress(TrickleError),
        runtime.connection() as connection,
        impatient(connection, "1s"),  # it is only to be seen
    ):
        mark_delivery(connection, record.id, status)


def _sees_commits_of_others(writer: Connection) -> bool:
    [(level,)] = writer.execute("SHOW transaction_isolation").fetchall()
    return bool(level == "read committed")


def _close(
    writer: Connection,
    sink: LakeSink,
    delivered: Delivered | None,
    record: OpenDelivery,
    delivery: Delivery,
) -> None:
    """Write down what was delivered, if anything was to be."""
    stream_table, refresh_id = delivery.stream_table, delivery.refresh_id
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
            frontier=delivery.frontier,
            rows=rows + deleted,
        )
    if record.attempts:
        logger.info(
            "delivers to the lake again",
            extra={"stream_table": str(stream_table.name), "attempts": record.attempts},
        )
    close_delivery(
        writer,
        record.id,
        refresh_id=refresh_id,
        rows=rows,
        deleted=deleted,
        size=size,
        snapshot_id=snapshot_id,
    )


def _describe(delivery: Delivery, token: str | None = None) -> Provenance:
    stream_table, refresh_id = delivery.stream_table, delivery.refresh_id
    facts = {
        "stream_table": str(stream_table.name),
        "refresh_id": refresh_id,
        "frontier": None if delivery.frontier is None else delivery.frontier.to_json(),
        "created_by": f"pg_trickle/{VERSION}/stream_table/{stream_table.relid}/{stream_table.name}",
    }
    if token is not None:
        facts["delivery"] = token
    what = "delivery" if refresh_id is None else f"refresh {refresh_id}"
    return Provenance(f"{what} of {stream_table.name}", json.dumps(facts))
