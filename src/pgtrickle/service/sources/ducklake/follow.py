"""Follow the lake: bring the rows of attached tables to the newest snapshot.

Rows and position change in one transaction, so whoever reads the rows knows of which snapshot they
are.  What the capture of the rows sees is the difference and nothing else: rows that were only
moved to other files are not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import timedelta

import psycopg
from psycopg import Connection

from pgtrickle.catalog.lake.sources import (
    alert_source,
    find_source,
    list_sources,
    note_source_failure,
    update_source,
)
from pgtrickle.errors import (
    LakeCatalogError,
    LakeReadError,
    LakeSnapshotExpiredError,
    LakeSourceError,
    TrickleError,
)
from pgtrickle.lake.feed.apply import Landed, Landing, landing_columns
from pgtrickle.lake.feed.locate import Located, locate
from pgtrickle.lake.feed.plan import plan_feed
from pgtrickle.lake.feed.read_changes import read_gone, read_new
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.tables import find_head
from pgtrickle.lake.format.trust import check_tables
from pgtrickle.lake.write.text_settings import fixed_settings
from pgtrickle.model.lake.source import CompactionPolicy, Followed, LakeSource, SourceColumn
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sources.ducklake.attach import open_catalog, read_all
from pgtrickle.settings import Settings

logger = logging.getLogger(__name__)

_QUIET = timedelta(seconds=10)  # before a daemon tries again what failed


def follow_behind(
    runtime: Runtime,
    sources: Sequence[LakeSource],
    kept: Callable[[], AbstractContextManager[None]],
) -> None:
    """Follow those of some lake tables that have a newer snapshot, inside ``kept``."""
    with runtime.connection() as connection:
        behind = _list_behind(connection, sources)
    if behind:
        with kept():
            for source in behind:
                _follow(runtime, source)


def follow_due(runtime: Runtime) -> None:
    """Follow every lake table that has a newer snapshot; a daemon calls it again and again.

    One that cannot be followed is on record and tried again later; the others go on.
    """
    with runtime.connection() as connection:
        sources = list_sources(connection, _QUIET)
        behind = _list_behind(connection, sources) if sources else []
    for source in behind:
        with suppress(TrickleError):
            _follow(runtime, source)


def _list_behind(connection: Connection, sources: Sequence[LakeSource]) -> list[LakeSource]:
    """Return those whose catalog has another newest snapshot, by one query for each catalog."""
    heads: dict[str, int | None] = {}
    for schema in {source.catalog_schema for source in sources}:
        try:
            check_tables(connection, schema)
            heads[schema] = find_head(connection, LakeCatalog(schema, ""))
        except (psycopg.Error, LakeCatalogError):
            heads[schema] = None  # following says what is wrong with it
    return [one for one in sources if heads[one.catalog_schema] != one.snapshot_id]


def _follow(runtime: Runtime, source: LakeSource) -> Followed | None:
    try:
        followed = follow(runtime, source.id)
    except TrickleError as error:
        with suppress(TrickleError), runtime.connection() as connection:
            if note_source_failure(connection, source.id, f"{error.code}: {error}"):
                alert_source(connection, "lake_source_failed", source.landing, str(error))
                logger.warning(
                    "cannot follow a lake table: %s",
                    error,
                    extra={"landing": str(source.landing), "code": error.code},
                )
        raise
    if followed is not None and followed.gap:
        logger.warning(
            "read a lake table as a whole, because %s",
            followed.gap,
            extra={"landing": str(source.landing), "snapshot": followed.snapshot_id},
        )
    return followed


def follow(runtime: Runtime, source_id: int) -> Followed | None:
    """Bring one lake table to the newest snapshot; None if it is not attached any more."""
    with runtime.connection() as connection:
        source = find_source(connection, source_id)
        if source is None:
            return None
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            # Before the first query: the snapshot must see what another follower has committed.
            _lock(connection, source)
            source = find_source(connection, source_id)
            if source is None:
                return None
            with fixed_settings(connection):
                return _catch_up(connection, source, runtime.settings)


def _lock(connection: Connection, source: LakeSource) -> None:
    try:
        connection.execute(trusted(f"LOCK TABLE {source.rows.sql} IN SHARE ROW EXCLUSIVE MODE"))
    except psycopg.errors.UndefinedTable as error:
        raise LakeSourceError(
            f'the table with the rows of "{source.landing}" was dropped',
            hint=f"Run: pgtrickle lake detach {source.landing}, and attach the lake table again.",
        ) from error


def _catch_up(connection: Connection, source: LakeSource, settings: Settings) -> Followed:
    catalog = open_catalog(connection, source.catalog_schema, settings, source.data_path)
    head = find_head(connection, catalog)
    if head == source.snapshot_id:
        return Followed(head)
    located = locate(connection, catalog, source, head)
    gap = located.gap
    landed = Landed()
    if gap is None and located.touched and not located.renumbered:
        landed, gap = _apply_changes(connection, catalog, source, located, head)
    if gap is not None:
        _refuse_gap(source, gap)
    if gap is not None or located.renumbered:
        landed = _landing(connection, source, located).replace(
            read_all(connection, catalog, located.table, located.columns, head)
        )
    if gap is not None:
        alert_source(connection, "lake_source_read_anew", source.landing, gap)
    update_source(
        connection,
        replace(
            source,
            snapshot_id=head,
            table_id=located.table.id,
            table_uuid=located.table.uuid,
            data_path=catalog.data_path,
            columns=tuple(
                SourceColumn(found.id, column.name, column.kind)
                for column, found in zip(source.columns, located.columns, strict=True)
            ),
        ),
    )
    return Followed(head, landed.inserted, landed.updated, landed.deleted, gap)


def _apply_changes(
    connection: Connection, catalog: LakeCatalog, source: LakeSource, located: Located, head: int
) -> tuple[Landed, str | None]:
    """Apply what changed since the last snapshot, or say why that cannot be read."""
    try:
        with connection.transaction():
            feed = plan_feed(
                connection, catalog, located.table, located.columns, source.snapshot_id, head
            )
            landing = _landing(connection, source, located)
            return landing.change(read_new(feed), read_gone(feed)), None
    except LakeReadError as error:
        # A file that only the last snapshot needed may be gone; what is there now tells as much.
        return Landed(), str(error)


def _refuse_gap(source: LakeSource, gap: str) -> None:
    if source.policy is CompactionPolicy.ERROR:
        raise LakeSnapshotExpiredError(
            f'the changes of the lake table "{source.lake_table}" cannot be told: {gap}',
            hint=f'"{source.landing}" keeps the last rows. Attach it with the compaction policy'
            " fallback to have all rows compared then; or keep snapshots longer.",
        )


def _landing(connection: Connection, source: LakeSource, located: Located) -> Landing:
    names = [column.name for column in source.columns]
    return Landing(connection, source.rows, landing_columns(names, located.columns))
