"""Read PostgreSQL's statistics of the tables of a stream table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.algebra.nodes import Scan, SourceKind
from pgtrickle.algebra.schema import scans_of
from pgtrickle.binding.planning_bounds import explain_query
from pgtrickle.delta.cut import StagedQuery
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.plan.cost.statistics import ROWS, Statistics, TableStatistics

_NOT_ANALYZED = -1
_PAGE_BYTES = 8168
_ROW_BYTES = 28  # overhead beside its columns
_NONE = 0  # no stream table has this id, and no relation this oid

# Like PostgreSQL's own planner: the current size of the files, times the rows per page at the last
# ANALYZE, or those expected from the columns. An ordinary role sees the statistics of tables that
# it may read.
_LIST = r"""
    SELECT c.oid::pg_catalog.int8, n.nspname, c.relname, c.reltuples, c.relpages,
           CASE WHEN c.relkind IN ('r', 'm')
                THEN pg_catalog.pg_relation_size(c.oid)
                     / pg_catalog.current_setting('block_size')::pg_catalog.int8 END,
           (SELECT sum(CASE WHEN a.attlen > 0 THEN a.attlen ELSE 32 END)
              FROM pg_catalog.pg_attribute AS a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
           (SELECT pg_catalog.jsonb_object_agg(s.attname, s.n_distinct)
              FROM pg_catalog.pg_stats AS s
             WHERE s.schemaname = n.nspname AND s.tablename = c.relname),
           ARRAY(SELECT a.attname::pg_catalog.text
                   FROM pg_catalog.pg_index AS i
                   JOIN pg_catalog.pg_attribute AS a
                     ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                  WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL),
           ARRAY(SELECT a.attname::pg_catalog.text
                   FROM pg_catalog.pg_index AS i
                   JOIN pg_catalog.pg_attribute AS a
                     ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                  WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
                    AND i.indisunique AND i.indnkeyatts = 1)
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = ANY(%(relids)s::pg_catalog.oid[])
        OR (n.nspname = 'pgtrickle_state' AND c.relkind = 'r'
            AND pg_catalog.starts_with(c.relname, %(prefix)s))
"""


def read_statistics(
    connection: Connection[TupleRow],
    stream_table: StreamTable | None,
    query: StagedQuery,
    relids: Sequence[int],
) -> Statistics:
    """Read the statistics of sources, state and contents in one query, and price conditions.

    Without a stream table there are neither state nor contents yet.

    The connection is in autocommit mode: a condition that cannot be priced fails alone.
    """
    prefix = f"st_{_NONE if stream_table is None else stream_table.id}_"
    own = _NONE if stream_table is None else stream_table.relid
    values = {"relids": [*relids, own], "prefix": prefix}
    sources, states, contents = {}, {}, TableStatistics(0.0)
    for relid, schema, name, *facts in connection.execute(_LIST, values):
        found = _table(*facts)
        if relid == own:
            contents = found
        elif schema == "pgtrickle_state":
            states[name.removeprefix(prefix)] = found
        else:
            sources[str(relid)] = found
    return Statistics(sources, states, contents, _selectivity(connection, query, sources))


def _table(
    analyzed_rows: float,
    analyzed_pages: int,
    pages: int | None,
    column_bytes: int | None,
    distinct: Mapping[str, float] | None,
    indexed: Sequence[str],
    unique: Sequence[str],
) -> TableStatistics:
    if pages is None:  # a foreign or partitioned table: no file of its own
        rows = ROWS if analyzed_rows == _NOT_ANALYZED else analyzed_rows
    elif analyzed_rows == _NOT_ANALYZED or not analyzed_pages:
        rows = float(pages * (_PAGE_BYTES // (_ROW_BYTES + (column_bytes or 0))))
    else:
        rows = pages * analyzed_rows / analyzed_pages
    # A negative number is a share of the rows.
    known = {
        column: number if number >= 0 else -number * rows
        for column, number in (distinct or {}).items()
        if number
    }
    return TableStatistics(rows, dict.fromkeys(unique, rows) | known, frozenset(indexed))


def _selectivity(
    connection: Connection[TupleRow],
    query: StagedQuery,
    sources: Mapping[str, TableStatistics],
) -> dict[tuple[str, str], float]:
    """Ask PostgreSQL's planner for the selectivity of each condition."""
    found: dict[tuple[str, str], float] = {}
    for scan in _filtered_tables(query):
        predicate = scan.predicate.sql if scan.predicate else ""
        rows = sources[scan.source.key].rows if scan.source.key in sources else 0.0
        if (scan.source.key, predicate) in found or not rows or scan.source.relation is None:
            continue
        query_of_scan = f"SELECT FROM {scan.source.relation.sql} WHERE {predicate}"
        try:
            plan = explain_query(connection, query_of_scan)
        except psycopg.Error:
            continue
        left = float(plan["Plan Rows"])
        found[scan.source.key, predicate] = min(max(left, 1.0) / rows, 1.0)
    return found


def _filtered_tables(query: StagedQuery) -> Iterator[Scan]:
    for stage in query.stages:
        for scan in scans_of(stage.body):
            if scan.source.kind is SourceKind.TABLE and scan.predicate is not None:
                yield scan
