"""Turn the lake copy of a stream table on and off, deliver it by hand, and show how far it is."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from psycopg import Connection

from pgtrickle.catalog.ducklake_intents import find_intent
from pgtrickle.catalog.ducklake_sinks import (
    delete_sink,
    find_open_delivery,
    find_sink,
    forgive_delivery,
    insert_sink,
    list_due_deliveries,
    list_sink_status,
    open_delivery,
    update_sink,
)
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import LakeCatalogError, LakeSinkError, LeaseHeldError, TrickleError
from pgtrickle.lake.catalog import find_catalog
from pgtrickle.lake.columns import number_columns
from pgtrickle.lake.commit import begin_commit
from pgtrickle.lake.deliver import check_free, open_catalog
from pgtrickle.lake.elsewhere import check_catalog_dsn
from pgtrickle.lake.partition import parse_partition_by, partition_spec
from pgtrickle.lake.row_map import RowMap, create_row_map, drop_row_map
from pgtrickle.lake.tables import find_table
from pgtrickle.lake.turns import AUTHOR
from pgtrickle.lake.types import lake_type
from pgtrickle.lake.views import find_view
from pgtrickle.model.lake_sink import FailureMode, LakeSink, SinkStatus
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.stream_table import InitiatedBy, StreamTable
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.lake_elsewhere import Ending, end_elsewhere, lake_transaction, opened
from pgtrickle.service.lake_errors import lake_errors
from pgtrickle.service.lake_sink import LeftDelivery, deliver_apart
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

DUCKLAKE = "ducklake"
NO_SINK = "none"
_LAKE_SCHEMA = "main"  # the default of DuckLake itself


def check_sink(sink: str | None) -> None:
    """Raise ST703 for a kind of sink that does not exist."""
    if sink not in {None, DUCKLAKE, NO_SINK}:
        raise LakeSinkError(
            f'the sink "{sink}" does not exist', hint=f"Choose {DUCKLAKE} or {NO_SINK}."
        )


def enable_sink(
    runtime: Runtime,
    connection: Connection,
    stream_table: StreamTable,
    *,
    path: str | None,
    lake_table: str | None,
    partition_by: str | None,
) -> None:
    """Give a stream table a sink, inside the caller's transaction; the next delivery fills it."""
    if partition_by is not None:
        _check_partition(connection, stream_table, partition_by)
    name = QualifiedName.parse(lake_table or _plain_name(stream_table), _LAKE_SCHEMA)
    schema, dsn = runtime.settings.ducklake_catalog_schema, _find_dsn(runtime)
    sink = LakeSink(stream_table.id, schema, name, path, partition_by=partition_by, catalog_dsn=dsn)
    with lake_errors(), opened(dsn, connection) as ends:
        insert_sink(connection, sink)
        with lake_transaction(ends):
            catalog = open_catalog(ends.lake, sink)
        update_sink(connection, replace(sink, data_path=catalog.data_path))
        check_free(ends, catalog, sink, stream_table.name)
        create_row_map(connection, RowMap(stream_table.id))
        open_delivery(connection, stream_table.id)


def _find_dsn(runtime: Runtime) -> str:
    """Return where new sinks have their catalog; raises ST703 if they cannot have it there."""
    dsn = runtime.settings.ducklake_catalog_dsn.strip()
    if not dsn:
        return ""
    check_catalog_dsn(dsn)
    if FailureMode(runtime.settings.ducklake_sink_failure_mode) is FailureMode.ERROR:
        raise LakeSinkError(
            "a refresh cannot fail with a delivery to another database, which follows its commit",
            hint="Set ducklake_sink_failure_mode to warn, or leave ducklake_catalog_dsn empty.",
        )
    return dsn


def _check_partition(connection: Connection, stream_table: StreamTable, partition_by: str) -> None:
    """Raise ST703 for partition keys that the stream table does not have."""
    columns = compile_stream_table(connection, stream_table).columns
    kept = number_columns([(column.name, lake_type(column.type)) for column in columns])
    partition_spec(parse_partition_by(partition_by), kept)


def disable_sink(connection: Connection, stream_table: StreamTable, *, drop: bool) -> list[Ending]:
    """Take the sink of a stream table away, and its view; with ``drop``, its lake table ends too.

    Without, the lake keeps what was delivered last.  Returns what the caller has to end in another
    database, with ``end_copies``, when all this is committed.
    """
    sink = find_sink(connection, stream_table.id)
    if sink is None:
        return []
    intent = find_intent(connection, stream_table.id)
    if not sink.elsewhere:
        _end_in_lake(connection, stream_table, sink, drop)
    drop_row_map(connection, RowMap(stream_table.id))
    delete_sink(connection, stream_table.id)
    return [Ending(stream_table, sink, intent, drop)] if sink.elsewhere else []


def end_copies(endings: Iterable[Ending]) -> None:
    """End copies in other databases, whose sinks are gone here."""
    for one in endings:
        end_elsewhere(one, _end_in_lake)


def _end_in_lake(
    connection: Connection,
    stream_table: StreamTable,
    sink: LakeSink,
    drop: bool,  # noqa: FBT001 - passed on
) -> None:
    try:
        catalog = find_catalog(connection, sink.catalog_schema)  # no file is touched
    except LakeCatalogError as error:
        # Nobody shall be unable to drop a table because of what others did to the lake.
        logger.warning("%s, so nothing was ended in it", error, extra={"code": error.code})
        return
    if catalog is None:
        logger.warning(
            "the catalog of the lake is gone, so nothing was ended in it",
            extra={"stream_table": str(stream_table.name), "schema": sink.catalog_schema},
        )
        return
    if sink.table_id is None or (not drop and sink.view_id is None):
        return
    commit = begin_commit(connection, catalog)
    if sink.view_id is not None and find_view(connection, catalog, sink.view_id) is not None:
        commit.drop_view(sink.view_id)
    stored = find_table(connection, catalog, sink.lake_table)
    if drop and stored is not None and stored.id == sink.table_id:
        commit.drop_table(stored.id)
    if commit.changes:
        commit.finish(author=AUTHOR, message=f"drop of {stream_table.name}")


def retry_delivery(runtime: Runtime, name: QualifiedName) -> SinkStatus:
    """Deliver now what the lake lacks, however often that failed before; see how it went."""
    _deliver_apart(runtime, name, forgive=True)
    return show_sink(runtime, name)


def deliver_due(runtime: Runtime) -> None:
    """Try again the deliveries whose time has come; a daemon calls it again and again.

    A refresh does so too, but where no source changes there is none.  What fails here loses
    nothing: it is on record, or logged and met again.
    """
    with runtime.connection() as connection:
        due = list_due_deliveries(connection)
    for name in due:
        try:
            _deliver_apart(runtime, name, forgive=False)
        except LeaseHeldError:
            continue  # a refresh, whose load this may be
        except TrickleError as error:
            logger.warning(
                "could not try a delivery again",
                extra={"stream_table": str(name), "code": error.code},
            )


def _deliver_apart(runtime: Runtime, name: QualifiedName, *, forgive: bool) -> None:
    """Deliver apart from any refresh; the lease keeps refreshes away meanwhile."""
    with claimed(runtime, name, InitiatedBy.MANUAL) as (stream_table, lease):
        with runtime.connection() as connection:
            sink = find_sink(connection, stream_table.id)
            if sink is None:
                raise _no_sink(name)
            if forgive:
                forgive_delivery(connection, stream_table.id)
            delivery = find_open_delivery(connection, stream_table.id)
            delivery = delivery or open_delivery(connection, stream_table.id)
            seconds = runtime.settings.planning_timeout_seconds
            columns = tuple(compile_stream_table(connection, stream_table, seconds).columns)
        left = LeftDelivery(columns, None, stream_table.frontier)
        deliver_apart(runtime, stream_table, lease, sink, delivery, left)


def show_sinks(runtime: Runtime) -> list[SinkStatus]:
    """Return every sink and how far it is."""
    with runtime.connection() as connection:
        return list_sink_status(connection)


def show_sink(runtime: Runtime, name: QualifiedName) -> SinkStatus:
    """Return the sink of one stream table, or raise ST703."""
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        found = [one for one in list_sink_status(connection) if one.stream_table == str(name)]
    if not found:
        raise _no_sink(stream_table.name)
    return found[0]


def _no_sink(name: QualifiedName) -> TrickleError:
    return LakeSinkError(
        f'the stream table "{name}" has no sink',
        hint=f"Give it one with: pgtrickle alter {name} --sink {DUCKLAKE}.",
    )


def _plain_name(stream_table: StreamTable) -> str:
    return QualifiedName(_LAKE_SCHEMA, stream_table.name.name).sql
