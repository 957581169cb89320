"""The advice of ``doctor``: indexes that would save refreshes a scan."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.algebra.schema import scans_of
from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.stream_tables import list_stream_tables
from pgtrickle.delta.reads import ReadKind
from pgtrickle.errors import TrickleError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.plan.stages import StagePlan, plan_differential, sources_of
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.insight.explanation.indexes import (
    MissingIndex,
    missing_indexes,
    missing_time_indexes,
)
from pgtrickle.service.refreshing.stages.state_rows import StateRows
from pgtrickle.service.runtime import Runtime
from pgtrickle.sql.emit import changes_view, rows_view

logger = logging.getLogger(__name__)

# A scan of so few pages takes less than a millisecond, and PostgreSQL may prefer it to an index.
_SMALL_ROWS = 1000
_SMALL_PAGES = 16


@dataclass(frozen=True, slots=True)
class IndexAdvice:
    """An index to create, and the stream tables that would use it."""

    statement: str
    table: str
    rows: int | None  # PostgreSQL's estimate; None before the first ANALYZE
    stream_tables: tuple[str, ...]


def advise_indexes(runtime: Runtime, connection: Connection) -> tuple[IndexAdvice, ...]:
    """Return the indexes that bounded reads of large tables lack, the largest table first."""
    wanted: dict[MissingIndex, list[str]] = {}
    for table in list_stream_tables(connection):
        for index in _missing(runtime, connection, table):
            wanted.setdefault(index, []).append(str(table.name))
    sizes = _sizes(connection, [index.relid for index in wanted])
    advice = [
        IndexAdvice(index.statement, str(index.relation), rows, tuple(names))
        for index, names in wanted.items()
        for pages, rows in [sizes.get(index.relid, (0, None))]
        if pages > _SMALL_PAGES and (rows is None or rows >= _SMALL_ROWS)
    ]
    return tuple(sorted(advice, key=lambda one: (-(one.rows or 0), one.statement)))


def _missing(runtime: Runtime, connection: Connection, table: StreamTable) -> set[MissingIndex]:
    try:
        compiled = compile_stream_table(connection, table, Bounds.of(runtime.settings))
    except TrickleError as error:
        # Its next refresh, and the check of the stream tables, report the cause.
        logger.info("no advice", extra={"stream_table": str(table.name), "code": error.code})
        return set()
    if compiled.refusal is not None:
        return set()
    state_rows = StateRows(table.id, compiled)
    changed = list(sources_of(compiled.staged))
    dialect = runtime.dialect_of(runtime.engine_mode(table.engine))
    plan = plan_differential(compiled.staged, changed, dialect, state_rows, compiled.known)
    return {index for stage in plan.stages for index in _missing_in(connection, stage)}


def _missing_in(connection: Connection, stage: StagePlan) -> Iterator[MissingIndex]:
    scans = {rows_view(scan): scan for scan in scans_of(stage.plan)}
    for read in stage.reads:
        if read.kind is ReadKind.KEYED:
            scan = scans[read.view]
            yield from missing_indexes(connection, scan, stage.bounds[scan.alias])
        if read.moved_sql:
            moving = next(one for one in scans_of(stage.plan) if changes_view(one) == read.view)
            yield from missing_time_indexes(connection, moving)


# Like the planner: the density found by ANALYZE times the current number of pages.
_SIZES = """
    SELECT c.oid, size.pages,
           CASE WHEN c.reltuples >= 0 AND c.relpages > 0
                THEN (c.reltuples / c.relpages * size.pages)::pg_catalog.int8 END
      FROM pg_catalog.pg_class AS c,
           LATERAL (SELECT pg_catalog.pg_relation_size(c.oid)
                           / pg_catalog.current_setting('block_size')::pg_catalog.int8
                   ) AS size (pages)
     WHERE c.oid = ANY (%(relids)s::pg_catalog.oid[])
"""


def _sizes(connection: Connection, relids: Sequence[int]) -> dict[int, tuple[int, int | None]]:
    """Return the pages and, if known, the rows of tables."""
    cursor = connection.execute(_SIZES, {"relids": list(relids)})
    return {relid: (pages, rows) for relid, pages, rows in cursor}
