"""Turn the lake copy of a stream table on and off, deliver it by hand, and show how far it is."""

from __future__ import annotations

import logging
from dataclasses import replace

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.lake.intents import find_intent
from pgtrickle.catalog.lake.sinks import (
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
from pgtrickle.lake.format.catalog import find_catalog
from pgtrickle.lake.format.columns import number_columns
from pgtrickle.lake.format.partition import parse_partition_by, partition_spec
from pgtrickle.lake.format.tables import find_table
from pgtrickle.lake.format.types import lake_type
from pgtrickle.lake.format.views import find_view
from pgtrickle.lake.write.commit import begin_commit
from pgtrickle.lake.write.commit_turns import AUTHOR
from pgtrickle.lake.write.deliver import check_free, check_writable, open_catalog
from pgtrickle.lake.write.other_database import check_catalog_dsn
from pgtrickle.lake.write.row_map import RowMap, create_row_map, drop_row_map
from pgtrickle.model.lake.sink import FailureMode, LakeSink, SinkStatus
from pgtrickle.model.stream_table import InitiatedBy, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.stream_table import DUCKLAKE, LAKE_SCHEMA, SinkOptions
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.catalog_schema import usual_schema
from pgtrickle.service.sinks.ducklake.delivery import deliver_apart
from pgtrickle.service.sinks.ducklake.errors import lake_errors
from pgtrickle.service.sinks.ducklake.other_database import (
    Ending,
    end_elsewhere,
    lake_transaction,
    opened,
)
from pgtrickle.service.sinks.kind import Delivery

logger = logging.getLogger(__name__)


def enable_sink(
    runtime: Runtime,
    connection: Connection,
    stream_table: StreamTable,
    options: SinkOptions,
) -> None:
    """Give a stream table a sink, inside the caller's transaction; the next delivery fills it."""
    partition_by = options.ducklake_partition_by
    if partition_by is not None:
        _check_partition(connection, stream_table, partition_by)
    name = options.ducklake_table or QualifiedName(LAKE_SCHEMA, stream_table.name.name)
    dsn = _find_dsn(runtime)
    with lake_errors(), opened(dsn, connection) as ends:
        schema = usual_schema(ends, runtime.settings, dsn)
        sink = LakeSink(
            stream_table.id,
            schema,
            name,
            options.ducklake_sink_path,
            partition_by=partition_by,
            catalog_dsn=dsn,
        )
        insert_sink(connection, sink)
        with lake_transaction(ends):
            catalog = open_catalog(ends.lake, sink, runtime.settings.lake_file_mode)
        update_sink(connection, replace(sink, data_path=catalog.data_path))
        check_free(ends, catalog, sink, stream_table.name)
        check_writable(ends, catalog, sink)
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


def disable_sink(connection: Connection, stream_table: StreamTable, *, drop: bool) -> Ending | None:
    """Take the sink of a stream table away, and its view; with ``drop``, its lake table ends too.

    Without, the lake keeps what was delivered last.  Returns what the caller has to end in another
    database, with ``end_copy``, when all this is committed.
    """
    sink = find_sink(connection, stream_table.id)
    if sink is None:
        return None
    intent = find_intent(connection, stream_table.id)
    if not sink.elsewhere:
        _end_in_lake(connection, stream_table, sink, drop)
    drop_row_map(connection, RowMap(stream_table.id))
    delete_sink(connection, stream_table.id)
    return Ending(stream_table, sink, intent, drop) if sink.elsewhere else None


def end_copy(ending: Ending) -> None:
    """End a copy in another database, whose sink is gone here."""
    end_elsewhere(ending, _end_in_lake)


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
                raise no_sink(name)
            if forgive:
                forgive_delivery(connection, stream_table.id)
            record = find_open_delivery(connection, stream_table.id)
            record = record or open_delivery(connection, stream_table.id)
            bounds = Bounds.of(runtime.settings)
            columns = tuple(compile_stream_table(connection, stream_table, bounds).columns)
        delivery = Delivery(stream_table, columns, stream_table.frontier)
        deliver_apart(runtime, lease, sink, record, delivery)


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
        raise no_sink(stream_table.name)
    return found[0]


def no_sink(name: QualifiedName) -> TrickleError:
    """Return the error that a stream table has no copy in the lake."""
    return LakeSinkError(
        f'the stream table "{name}" has no sink',
        hint=f"Give it one with: pgtrickle alter {name} --sink {DUCKLAKE}.",
    )
