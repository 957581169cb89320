"""Keep the lake tidy: merge small files, remove what nobody needs any more.

Each sink is tended under the lease of its stream table, so no refresh writes there meanwhile;
readers, and writers of other tables, go on.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial

from psycopg import Connection

from pgtrickle.catalog.lake.intents import insert_intent
from pgtrickle.catalog.lake.sinks import (
    find_sink,
    list_roots,
    list_sinks,
    take_neglected_sinks,
    update_sink,
)
from pgtrickle.catalog.lake.sources import list_sources
from pgtrickle.catalog.refreshes.leases import Lease, check_lease
from pgtrickle.catalog.snapshots.entries import list_kept_in_lake
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import LeaseHeldError, TrickleError
from pgtrickle.lake.files.roots import LakePath, Roots
from pgtrickle.lake.files.stores import remove
from pgtrickle.lake.format.catalog import LakeCatalog, find_catalog
from pgtrickle.lake.format.tables import find_table
from pgtrickle.lake.upkeep.compact import Compacted, compact
from pgtrickle.lake.upkeep.expire import expire_snapshots
from pgtrickle.lake.upkeep.sweep import sweep_orphans, take_replaced
from pgtrickle.lake.write.deliver import find_sink_catalog
from pgtrickle.lake.write.endpoints import Ends
from pgtrickle.model.lake.sink import Intent, LakeCare, LakeSink, SinkCare
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import InitiatedBy, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.errors import lake_errors
from pgtrickle.service.sinks.ducklake.other_database import (
    confirm,
    describe_before,
    lake_transaction,
    opened,
    settle,
)

logger = logging.getLogger(__name__)

_LOOK_AGAIN = 0.1  # seconds


def maintain_lake(
    runtime: Runtime,
    older_than: timedelta,
    keep: timedelta | None = None,
    wait_seconds: float = 0.0,
) -> LakeCare:
    """Tend every sink; one that cannot be tended now is reported, and the others are.

    ``older_than`` is the age from which a file that the catalog does not need may go: writers and
    readers that take longer than that would miss it.  Snapshots older than ``keep`` are forgotten.
    So long, for each sink, is waited while another works on its stream table.
    """
    with runtime.connection() as connection:
        names = list_sinks(connection)
    return _maintain(runtime, names, older_than, keep, wait_seconds)


def maintain_due(runtime: Runtime) -> None:
    """Tend the sinks that have not been tended for a while; a daemon calls it again and again."""
    settings = runtime.settings
    if not settings.ducklake_maintain_seconds:
        return
    every = timedelta(seconds=settings.ducklake_maintain_seconds)
    with runtime.connection() as connection:
        names = take_neglected_sinks(connection, every)
    if names:
        keep = settings.ducklake_keep_seconds
        _maintain(
            runtime,
            names,
            timedelta(seconds=settings.ducklake_file_seconds),
            timedelta(seconds=keep) if keep else None,
        )


def _maintain(
    runtime: Runtime,
    names: Sequence[QualifiedName],
    older_than: timedelta,
    keep: timedelta | None,
    wait_seconds: float = 0.0,
) -> LakeCare:
    tended = tuple(_tend(runtime, name, older_than, wait_seconds) for name in names)
    return LakeCare(tended, 0 if keep is None else _expire(runtime, keep))


def _expire(runtime: Runtime, keep: timedelta) -> int:
    """Forget old snapshots in every catalog that is in use, as far as everyone has seen them."""
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    expired = 0
    with lake_errors(), runtime.connection() as connection:
        for name in list_sinks(connection):
            sink = find_sink(connection, get_stream_table(connection, name).id)
            if sink is not None:
                loaded = not sink.needs_load and sink.snapshot_id is not None
                known = [sink.snapshot_id or 0] if loaded else []
                seen[sink.catalog_dsn, sink.catalog_schema] += known
        for source in list_sources(connection):
            # What changes from there on is to be read: the snapshot itself must stay.
            seen["", source.catalog_schema].append(source.snapshot_id - 1)
        for place, snapshots in seen.items():
            before = min(snapshots) + 1 if snapshots else None
            try:
                expired += _expire_one(connection, place, keep, before)
            except TrickleError as error:
                if not place[0]:
                    raise
                logger.warning("could not forget old snapshots", extra={"error": str(error)})
    return expired


def _expire_one(
    connection: Connection, place: tuple[str, str], keep: timedelta, before: int | None
) -> int:
    dsn, schema = place
    with lake_errors(), opened(dsn, connection) as ends:
        catalog = find_catalog(ends.lake, schema)
        if catalog is None:
            return 0
        with lake_transaction(ends):
            kept = partial(list_kept_in_lake, connection, schema)
            return expire_snapshots(ends.lake, catalog, keep, before, kept)


def _tend(
    runtime: Runtime, name: QualifiedName, older_than: timedelta, wait_seconds: float
) -> SinkCare:
    end = time.monotonic() + wait_seconds
    while True:
        try:
            return _tend_claimed(runtime, name, older_than)
        except TrickleError as error:
            if not isinstance(error, LeaseHeldError) or time.monotonic() >= end:
                logger.warning(
                    "could not tend a sink", extra={"stream_table": str(name), "code": error.code}
                )
                return SinkCare(str(name), error=f"{error.code}: {error}")
        time.sleep(_LOOK_AGAIN)


def _tend_claimed(runtime: Runtime, name: QualifiedName, older_than: timedelta) -> SinkCare:
    with (
        lake_errors(),
        claimed(runtime, name, InitiatedBy.MANUAL) as (stream_table, lease),
        keep_lease(runtime, lease),
        runtime.connection() as connection,
    ):
        sink = find_sink(connection, stream_table.id)
        if sink is None:
            return SinkCare(str(name))
        with opened(sink.catalog_dsn, connection) as ends:
            mode = runtime.settings.lake_file_mode
            return _tend_sink(ends, stream_table, lease, sink, older_than, mode)


def _tend_sink(
    ends: Ends,
    stream_table: StreamTable,
    lease: Lease,
    sink: LakeSink,
    older_than: timedelta,
    file_mode: int,
) -> SinkCare:
    if sink.elsewhere and settle(ends, stream_table, sink):
        sink = find_sink(ends.local, stream_table.id) or sink
    name = str(stream_table.name)
    catalog = find_sink_catalog(ends.lake, sink, file_mode)
    if catalog is None:
        return SinkCare(name)
    sink = replace(sink, data_path=catalog.data_path)
    columns = compile_stream_table(ends.local, stream_table).columns
    with ExitStack() as stack:
        if ends.apart:
            stack.enter_context(lake_transaction(ends))
        compacted, intent = _compact(ends, catalog, stream_table, lease, sink, columns)
    if intent is not None:
        confirm(ends.local, stream_table, intent)
    orphans, replaced = _tidy(ends, catalog, sink, older_than)
    return SinkCare(
        name,
        tuple(str(path) for path in orphans),
        tuple(str(path) for path in replaced),
        compacted.merged,
        compacted.flushed,
    )


def _compact(
    ends: Ends,
    catalog: LakeCatalog,
    stream_table: StreamTable,
    lease: Lease,
    sink: LakeSink,
    columns: Sequence[Column],
) -> tuple[Compacted, Intent | None]:
    """Compact and commit that here; as an intent, if another database has to commit it too."""
    token = uuid.uuid4().hex if ends.apart else None
    intent = None
    with ends.local.transaction():
        check_lease(ends.local, stream_table.id, lease.token)
        told = None if token is None else json.dumps({"delivery": token})
        compacted = compact(ends, catalog, sink, columns, told)
        update_sink(ends.local, compacted.sink)
        if token is not None and compacted.first_file_id is not None:
            intent = Intent(
                stream_table.id,
                token,
                compacted.sink.snapshot_id or 0,
                compacted.first_file_id,
                compacted.paths,
                loads=False,
                before=describe_before(sink),
            )
            insert_intent(ends.local, intent)
    return compacted, intent


def _tidy(
    ends: Ends, catalog: LakeCatalog, sink: LakeSink, older_than: timedelta
) -> tuple[list[LakePath], list[LakePath]]:
    stored = find_table(ends.lake, catalog, sink.lake_table)
    orphans: list[LakePath] = []
    if stored is not None:
        orphans = sweep_orphans(ends.lake, catalog, catalog.place(stored.directory), older_than)
    # The list is one of the whole catalog, in which other sinks may have directories of their own.
    common = replace(catalog, roots=Roots(list_roots(ends.local, sink)))
    with lake_transaction(ends):
        replaced = take_replaced(ends.lake, common, older_than)
    for path in replaced:
        remove(path)
    return orphans, replaced
