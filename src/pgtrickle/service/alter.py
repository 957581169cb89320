"""``alter_stream_table``: change how a stream table is maintained, or what it shows."""

from __future__ import annotations

from functools import partial

from psycopg import Connection

from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.graph import update_diamond
from pgtrickle.catalog.stream_tables import (
    get_stream_table,
    update_max_delta_fraction,
    update_refresh_mode,
    update_schedule,
    update_status,
    update_tier,
)
from pgtrickle.catalog.wal_capture import update_requested_cdc_mode
from pgtrickle.errors import StatusForbidsError
from pgtrickle.model.cdc_mode import CdcMode
from pgtrickle.model.delta_fraction import DEFAULT, Fraction, check_fraction
from pgtrickle.model.diamonds import Diamond
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.schedule import parse_schedule
from pgtrickle.model.stream_table import RefreshMode, Status, StreamTable
from pgtrickle.model.tier import Tier
from pgtrickle.service.capture_mode import settle_capture
from pgtrickle.service.close_circle import check_mode
from pgtrickle.service.compile import compile_stream_table, effective_mode
from pgtrickle.service.lake_control import (
    DUCKLAKE,
    NO_SINK,
    check_sink,
    disable_sink,
    enable_sink,
    end_copies,
    retry_delivery,
)
from pgtrickle.service.lake_elsewhere import Ending
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.replace_query import is_another_query, replace_query
from pgtrickle.service.runtime import Runtime

_AS_IT_IS = Diamond()
_SETTABLE = (Status.ACTIVE, Status.SUSPENDED)


def alter_stream_table(
    runtime: Runtime,
    name: QualifiedName,
    *,
    schedule: str | None,
    refresh_mode: RefreshMode | None,
    status: Status | None,
    query: str | None = None,
    search_path: str | None = None,
    max_delta_fraction: Fraction | None = None,
    cdc_mode: CdcMode | None = None,
    diamond: Diamond = _AS_IT_IS,
    tier: Tier | None = None,
    sink: str | None = None,
    ducklake_sink_path: str | None = None,
    ducklake_table: str | None = None,
    ducklake_partition_by: str | None = None,
) -> StreamTable:
    """Apply the changes that are not None, all or none of them.

    ``search_path`` is where the names of a new ``query`` are looked for; None: on the user's
    path.  Another ``cdc_mode`` or a new ``sink`` is acted upon afterwards: if that fails, it is on
    record all the same.
    """
    if schedule is not None:
        parse_schedule(schedule)
    check_sink(sink)
    if max_delta_fraction is not None and max_delta_fraction != DEFAULT:
        check_fraction(max_delta_fraction)
    if status is not None and status not in _SETTABLE:
        raise StatusForbidsError(
            f'the status of a stream table cannot be set to "{status.value}"',
            hint="Set it to ACTIVE or SUSPENDED.",
        )
    endings: list[Ending] = []
    change = partial(
        _change,
        runtime,
        endings=endings,
        schedule=schedule,
        refresh_mode=refresh_mode,
        status=status,
        max_delta_fraction=max_delta_fraction,
        cdc_mode=cdc_mode,
        diamond=diamond,
        tier=tier,
        sink=sink,
        ducklake_sink_path=ducklake_sink_path,
        ducklake_table=ducklake_table,
        ducklake_partition_by=ducklake_partition_by,
    )
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
    if query is None or not is_another_query(runtime, stream_table, query, search_path):
        with runtime.connection() as connection, connection.transaction():
            change(connection, get_stream_table(connection, name))
    else:
        replace_query(
            runtime, name, query, search_path=search_path, refresh_mode=refresh_mode, also=change
        )
    end_copies(endings)
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        sources = [one.source_relid for one in list_dependencies(connection, stream_table.id)]
    if cdc_mode is not None:
        settle_capture(runtime, sources, strict=True)
    if sink == DUCKLAKE and stream_table.populated:
        retry_delivery(runtime, name)
    with runtime.connection() as connection:
        return get_stream_table(connection, name)


def _change(
    runtime: Runtime,
    connection: Connection,
    stream_table: StreamTable,
    *,
    endings: list[Ending],
    schedule: str | None,
    refresh_mode: RefreshMode | None,
    status: Status | None,
    max_delta_fraction: Fraction | None,
    cdc_mode: CdcMode | None,
    diamond: Diamond,
    tier: Tier | None,
    sink: str | None,
    ducklake_sink_path: str | None,
    ducklake_table: str | None,
    ducklake_partition_by: str | None,
) -> None:
    """Record the changes; commits nothing.  What is to end elsewhere goes into ``endings``."""
    check_owner(connection, stream_table)
    if schedule is not None:
        update_schedule(connection, stream_table.id, schedule)
    if refresh_mode is not None:
        if stream_table.circle is not None:
            check_mode(stream_table, refresh_mode)
        seconds = runtime.settings.planning_timeout_seconds
        compiled = compile_stream_table(connection, stream_table, seconds)
        if compiled.refusal is not None and refresh_mode is RefreshMode.DIFFERENTIAL:
            raise compiled.refusal
        effective, reason = effective_mode(compiled, refresh_mode)
        update_refresh_mode(
            connection,
            stream_table.id,
            refresh_mode=refresh_mode,
            effective_refresh_mode=effective,
            downgrade_reason=reason,
        )
    if max_delta_fraction is not None:
        own = None if max_delta_fraction == DEFAULT else check_fraction(max_delta_fraction)
        update_max_delta_fraction(connection, stream_table.id, own)
    if cdc_mode is not None:
        update_requested_cdc_mode(connection, stream_table.id, cdc_mode)
    if tier is not None:
        update_tier(connection, stream_table.id, tier)
    if diamond:
        update_diamond(connection, stream_table.id, diamond)
    if sink == NO_SINK:
        endings[:] = disable_sink(connection, stream_table, drop=False)
    if sink == DUCKLAKE:
        enable_sink(
            runtime,
            connection,
            stream_table,
            path=ducklake_sink_path,
            lake_table=ducklake_table,
            partition_by=ducklake_partition_by,
        )
    if status is not None:
        update_status(connection, stream_table.id, status)
