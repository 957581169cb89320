"""The copy of a stream table in the lake: turned on and off, delivered with each refresh.

A delivery is part of the refresh's own transaction, behind a savepoint.  Where it fails and the
failure mode is ``warn``, only the savepoint is undone: the refresh commits, and what the lake
lacks stays on record, so the next delivery brings exactly that.

A large delivery is one of its own: the refresh commits, and the delivery follows while the stream
table is still claimed (see ``lake_load``).  So is every delivery to a catalog in another database
(see ``lake_elsewhere``).
"""

from __future__ import annotations

import json
import logging
import random
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.catalog.ducklake_intents import insert_intent
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
from pgtrickle.errors import (
    LakeSinkError,
    LakeUnreachableError,
    LeaseLostError,
    Retry,
    TrickleError,
)
from pgtrickle.lake.deliver import (
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
from pgtrickle.lake.ends import Ends
from pgtrickle.lake.row_map import RowMap, note_changes, pair_updates
from pgtrickle.lake.session import fixed_settings
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.lake_sink import DeliveryStatus, FailureMode, Intent, LakeSink
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.compile import Compiled
from pgtrickle.service.lake_elsewhere import (
    confirm,
    describe_before,
    lake_transaction,
    opened,
    settle,
)
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
    if sink.elsewhere:
        return LeftDelivery(tuple(columns), refresh_id, frontier)
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
            loading=Loading(
                largest=largest_in_place(runtime) if bounded else None,
                file_mode=runtime.settings.lake_file_mode,
            ),
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
    if sink.elsewhere:
        with keep_lease(runtime, lease), runtime.jobs.named(str(stream_table.name)):
            _deliver_elsewhere(runtime, stream_table, lease, sink, delivery, left)
        return
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


def _deliver_elsewhere(
    runtime: Runtime,
    stream_table: StreamTable,
    lease: Lease,
    sink: LakeSink,
    delivery: OpenDelivery,
    left: LeftDelivery,
) -> None:
    """Deliver to a catalog in another database, and record a failure.

    A commit of an earlier delivery that is in doubt is settled first, and may have been all.
    """
    with runtime.connection() as local:
        try:
            with lake_errors(), opened(sink.catalog_dsn, local) as ends:
                if settle(ends, stream_table, sink):
                    found = _find_rest(local, stream_table)
                    if found is None:
                        return
                    sink, delivery = found
                spread = not sink.needs_load and _pair_large(runtime, local, stream_table)
                if sink.needs_load or spread:
                    mark_delivery(local, delivery.id, DeliveryStatus.WRITING)
                intent = commit_elsewhere(
                    runtime, ends, stream_table, lease, sink, delivery, left, spread_new=spread
                )
                if intent is not None:
                    confirm(local, stream_table, intent)
        except LeaseLostError:
            raise
        except TrickleError as error:
            if local.closed:
                raise
            with local.transaction():
                _fail(runtime.settings, local, stream_table, delivery, left.refresh_id, error)


def _find_rest(
    local: Connection, stream_table: StreamTable
) -> tuple[LakeSink, OpenDelivery] | None:
    """Return what is still to be delivered, now that an earlier delivery is settled."""
    sink = find_sink(local, stream_table.id)
    if sink is None:
        return None
    delivery = find_open_delivery(local, stream_table.id)
    if delivery is None:
        if not sink.needs_load and nothing_new(local, RowMap(stream_table.id)):
            return None
        delivery = open_delivery(local, stream_table.id)
    return sink, delivery


def commit_elsewhere(
    runtime: Runtime,
    ends: Ends,
    stream_table: StreamTable,
    lease: Lease,
    sink: LakeSink,
    delivery: OpenDelivery,
    left: LeftDelivery,
    *,
    spread_new: bool,
) -> Intent | None:
    """Commit a delivery here, as an intent, and then there; None if there was nothing to deliver.

    When this fails, the intent may be on record, and its snapshot committed or not.
    """
    with lake_transaction(ends):
        open_catalog(ends.lake, sink)  # a new one must be there for all, if only this commits
    with lake_transaction(ends):
        return commit_intent(
            runtime, ends, stream_table, lease, sink, delivery, left, spread_new=spread_new
        )


def commit_intent(
    runtime: Runtime,
    ends: Ends,
    stream_table: StreamTable,
    lease: Lease,
    sink: LakeSink,
    delivery: OpenDelivery,
    left: LeftDelivery,
    *,
    spread_new: bool,
) -> Intent | None:
    """Write what the lake lacks, inside the transaction of its catalog, and commit that here."""
    local, token = ends.local, uuid.uuid4().hex
    with local.transaction():
        provenance = _describe(stream_table, left.refresh_id, left.frontier, token)
        loading = _loading_apart(runtime, local, stream_table, spread_new=spread_new)
        delivered = deliver(ends, sink, stream_table.name, left.columns, provenance, loading)
        check_lease(local, stream_table.id, lease.token)
        if delivered is None:
            _record(local, stream_table, sink, None, delivery, left.refresh_id, left.frontier)
            return None
        intent = Intent(
            stream_table.id,
            token,
            delivered.sink.snapshot_id or 0,
            delivered.first_file_id,
            delivered.paths,
            delivered.loaded,
            describe_before(sink),
            delivery.id,
            left.refresh_id,
            left.frontier,
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
        connection.execute(f"ANALYZE {rows.new}".encode())
    return True


def _loading_apart(
    runtime: Runtime, connection: Connection, stream_table: StreamTable, *, spread_new: bool
) -> Loading:
    """Return how a delivery of its own writes; the executors see what its transaction sees now."""
    largest, mode = largest_in_place(runtime), runtime.settings.lake_file_mode
    if largest is None or table_bytes(connection, stream_table.name) <= largest:
        return Loading(file_mode=mode)
    # Rows must stay where they are until the commit: this keeps VACUUM FULL and the like away.
    connection.execute(f"LOCK TABLE {stream_table.name.sql} IN ACCESS SHARE MODE".encode())
    [(snapshot,)] = connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchall()
    load = SpreadLoad(runtime.engine, snapshot)
    if not spread_new:
        return Loading(load.write, file_mode=mode)
    return Loading(load.write, load.write_new, lasting=True, file_mode=mode)


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
            ends = Ends(writer, writer)
            delivered = deliver(ends, sink, stream_table.name, columns, provenance, loading)
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
    if isinstance(error, LakeUnreachableError):
        exhausted = False  # it heals without anyone's help, however long that takes
    permanent = exhausted or (isinstance(error, LakeSinkError) and error.retry is Retry.NEVER)
    longest = min(2.0 ** min(delivery.attempts, 60), _LONGEST_WAIT_SECONDS)
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
            "SELECT pgtrickle.notify(%s, pg_catalog.json_build_object("
            "'event', 'ducklake_sink_failed', 'stream_table', %s::text,"
            " 'attempts', %s::int, 'error', %s::text)::text)",
            [_ALERTS, str(stream_table.name), delivery.attempts + 1, str(error)],
        )


def _describe(
    stream_table: StreamTable,
    refresh_id: int | None,
    frontier: Frontier | None,
    token: str | None = None,
) -> Provenance:
    facts = {
        "stream_table": str(stream_table.name),
        "refresh_id": refresh_id,
        "frontier": None if frontier is None else frontier.to_json(),
    }
    if token is not None:
        facts["delivery"] = token
    what = "delivery" if refresh_id is None else f"refresh {refresh_id}"
    return Provenance(f"{what} of {stream_table.name}", json.dumps(facts))
