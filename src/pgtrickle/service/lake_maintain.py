"""Keep the lake tidy: merge small files, remove what nobody needs any more.

Each sink is tended under the lease of its stream table, so no refresh writes there meanwhile;
readers, and writers of other tables, go on.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from psycopg import Connection

from pgtrickle.catalog.ducklake_sinks import (
    find_sink,
    list_sinks,
    take_neglected_sinks,
    update_sink,
)
from pgtrickle.catalog.ducklake_sources import list_sources
from pgtrickle.catalog.leases import check_lease
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import TrickleError
from pgtrickle.lake.catalog import LakeCatalog, find_catalog
from pgtrickle.lake.compact import compact
from pgtrickle.lake.expire import expire_snapshots
from pgtrickle.lake.storage import LakePath, lake_path, remove
from pgtrickle.lake.sweep import sweep_orphans, take_replaced
from pgtrickle.lake.tables import find_table
from pgtrickle.model.lake_sink import LakeCare, LakeSink, SinkCare
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.stream_table import InitiatedBy
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.lake_errors import lake_errors
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)


def maintain_lake(
    runtime: Runtime, older_than: timedelta, keep: timedelta | None = None
) -> LakeCare:
    """Tend every sink; one that cannot be tended now is reported, and the others are.

    ``older_than`` is the age from which a file that the catalog does not need may go: writers and
    readers that take longer than that would miss it.  Snapshots older than ``keep`` are forgotten.
    """
    with runtime.connection() as connection:
        names = list_sinks(connection)
    return _maintain(runtime, names, older_than, keep)


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
) -> LakeCare:
    tended = tuple(_tend(runtime, name, older_than) for name in names)
    return LakeCare(tended, 0 if keep is None else _expire(runtime, keep))


def _expire(runtime: Runtime, keep: timedelta) -> int:
    """Forget old snapshots in every catalog that is in use, as far as everyone has seen them."""
    seen: dict[str, list[int]] = defaultdict(list)
    expired = 0
    with lake_errors(), runtime.connection() as connection:
        for name in list_sinks(connection):
            sink = find_sink(connection, get_stream_table(connection, name).id)
            if sink is not None:
                loaded = not sink.needs_load and sink.snapshot_id is not None
                seen[sink.catalog_schema] += [sink.snapshot_id or 0] if loaded else []
        for source in list_sources(connection):
            # What changes from there on is to be read: the snapshot itself must stay.
            seen[source.catalog_schema].append(source.snapshot_id - 1)
        for schema, snapshots in seen.items():
            catalog = find_catalog(connection, schema)
            if catalog is not None:
                with connection.transaction():
                    before = min(snapshots) + 1 if snapshots else None
                    expired += expire_snapshots(connection, catalog, keep, before)
    return expired


def _tend(runtime: Runtime, name: QualifiedName, older_than: timedelta) -> SinkCare:
    try:
        with (
            lake_errors(),
            claimed(runtime, name, InitiatedBy.MANUAL) as (stream_table, lease),
            keep_lease(runtime, lease),
            runtime.connection() as connection,
        ):
            sink = find_sink(connection, stream_table.id)
            catalog = None if sink is None else find_catalog(connection, sink.catalog_schema)
            if sink is None or catalog is None:
                return SinkCare(str(name))
            columns = compile_stream_table(connection, stream_table).columns
            with connection.transaction():
                check_lease(connection, stream_table.id, lease.token)
                compacted = compact(connection, catalog, sink, columns)
                update_sink(connection, compacted.sink)
            orphans, replaced = _tidy(connection, catalog, sink, older_than)
            return SinkCare(
                str(name),
                tuple(str(path) for path in orphans),
                tuple(str(path) for path in replaced),
                compacted.merged,
                compacted.flushed,
            )
    except TrickleError as error:
        logger.warning(
            "could not tend a sink", extra={"stream_table": str(name), "code": error.code}
        )
        return SinkCare(str(name), error=f"{error.code}: {error}")


def _tidy(
    connection: Connection, catalog: LakeCatalog, sink: LakeSink, older_than: timedelta
) -> tuple[list[LakePath], list[LakePath]]:
    stored = find_table(connection, catalog, sink.lake_table)
    orphans: list[LakePath] = []
    if stored is not None:
        orphans = sweep_orphans(connection, catalog, lake_path(stored.directory), older_than)
    with connection.transaction():
        replaced = take_replaced(connection, catalog, older_than)
    for path in replaced:
        remove(path)
    return orphans, replaced
