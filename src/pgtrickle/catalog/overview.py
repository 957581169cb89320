"""The answers of the status functions in the schema ``pgtrickle``; readers may call them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.status_report import (
    BufferSize,
    Daemon,
    Efficiency,
    FuseStatus,
    GateStatus,
    HealthCheck,
    Hold,
    ListedSource,
    RefreshGroup,
    RequestQueue,
    RunningRefresh,
    ServiceLevel,
    Severity,
    TableState,
    TreeLine,
    Versions,
    Watermark,
    WatermarkGroup,
)
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.version import VERSION, spark_version


@lru_cache(maxsize=4096)
def named(text: str) -> str:
    """Write a name that SQL has written as it is written elsewhere in Python.

    >>> named('public."both"'), named('app."Daily Sales"'), named("16384")
    ('public.both', 'app."Daily Sales"', '16384')
    """
    return str(QualifiedName.parse(text, "")) if "." in text else text


_CHECKS = "SELECT check_name, severity, detail, evidence, command FROM pgtrickle.health_check()"


def list_checks(connection: Connection[TupleRow]) -> list[HealthCheck]:
    """Return what is checked, and what is wrong."""
    rows = connection.execute(_CHECKS)
    return [HealthCheck(name, Severity(severity), *facts) for name, severity, *facts in rows]


_DAEMONS = """
    SELECT daemon, leads, started_at, seen_at, package, spark FROM pgtrickle.daemons()
"""


def list_daemons(connection: Connection[TupleRow]) -> list[Daemon]:
    """Return the daemons that live, the one that leads first."""
    return [Daemon(*row) for row in connection.execute(_DAEMONS)]


_QUEUE = "SELECT queued, running, oldest_queued_at FROM pgtrickle.request_queue()"


def get_queue(connection: Connection[TupleRow]) -> RequestQueue:
    """Return how many requests wait, and how many are executed."""
    [row] = connection.execute(_QUEUE).fetchall()
    return RequestQueue(*row)


_RUNNING = """
    SELECT name, daemon, running_since, stage, rows_read, rows_staged
      FROM pgtrickle.running_refreshes()
"""


def list_running(connection: Connection[TupleRow]) -> list[RunningRefresh]:
    """Return what is worked on, what has run for longest first."""
    rows = connection.execute(_RUNNING)
    return [RunningRefresh(named(name), *facts) for name, *facts in rows]


_COUNT_TABLES = "SELECT pg_catalog.count(*) FROM pgtrickle.stream_tables_info"
_LIST_TABLES = """
    SELECT t.stale AND t.status = 'ACTIVE', t.failing,
           t.status IN ('SUSPENDED', 'ERROR'),
           t.pgt_schema, t.pgt_name, t.status, t.schedule,
           extract(epoch FROM t.staleness)::pg_catalog.float8, t.consecutive_errors,
           t.last_error_message
      FROM pgtrickle.stream_tables_info AS t
     WHERE t.stale OR t.failing OR t.status IN ('SUSPENDED', 'ERROR')
     ORDER BY t.staleness DESC NULLS FIRST, t.pgt_schema, t.pgt_name
"""


def count_tables(connection: Connection[TupleRow]) -> int:
    """Return how many stream tables there are."""
    return int(connection.execute(_COUNT_TABLES).fetchall()[0][0])


def list_troubled(
    connection: Connection[TupleRow],
) -> tuple[list[TableState], list[TableState], list[TableState]]:
    """Return the stream tables that are behind, that fail, and that are suspended."""
    behind, failing, suspended = [], [], []
    for late, failed, stopped, schema, name, *facts in connection.execute(_LIST_TABLES):
        state = TableState(str(QualifiedName(schema, name)), *facts)
        if stopped:
            suspended.append(state)
            continue
        if late:
            behind.append(state)
        if failed:
            failing.append(state)
    return behind, failing, suspended


# A query that is being loaded in place of another is no stream table of its own.
_HOLDS = """
    SELECT name, reason FROM pgtrickle.list_holds()
     WHERE NOT pg_catalog.starts_with(name, 'pgtrickle_state.')
"""


def list_hold_reasons(connection: Connection[TupleRow]) -> list[Hold]:
    """Return the stream tables that the scheduler leaves alone, with each reason."""
    return [Hold(named(name), reason) for name, reason in connection.execute(_HOLDS)]


_TREE = """
    SELECT tree_line, node, node_type, depth, status, refresh_mode
      FROM pgtrickle.dependency_tree()
"""


def list_tree(connection: Connection[TupleRow]) -> list[TreeLine]:
    """Return what stream tables read, as a tree."""
    return [TreeLine(*row) for row in connection.execute(_TREE)]


_FUSES = """
    SELECT name, fuse_mode, fuse_state, fuse_ceiling, fuse_sensitivity, blown_at, blow_reason
      FROM pgtrickle.fuse_status()
"""


def list_fuses(connection: Connection[TupleRow]) -> list[FuseStatus]:
    """Return the fuse of each stream table."""
    return [FuseStatus(named(name), *facts) for name, *facts in connection.execute(_FUSES)]


_GATES = """
    SELECT source_table, gated, gated_at, ungated_at, gated_by, affected_stream_tables
      FROM pgtrickle.bootstrap_gate_status()
"""


def list_gates(connection: Connection[TupleRow]) -> list[GateStatus]:
    """Return the sources that are or were gated."""
    rows = connection.execute(_GATES)
    return [
        GateStatus(named(source), gated, since, until, by, [named(one) for one in readers])
        for source, gated, since, until, by, readers in rows
    ]


_WATERMARKS = """
    SELECT source_table, watermark, updated_at, advanced_by FROM pgtrickle.watermarks()
"""


def list_watermarks(connection: Connection[TupleRow]) -> list[Watermark]:
    """Return up to when sources are said to be complete."""
    return [Watermark(named(name), *facts) for name, *facts in connection.execute(_WATERMARKS)]


_WATERMARK_GROUPS = """
    SELECT group_name, sources, tolerance_secs, min_watermark, max_watermark, lag_secs, aligned
      FROM pgtrickle.watermark_status()
"""


def list_watermark_groups(connection: Connection[TupleRow]) -> list[WatermarkGroup]:
    """Return the watermark groups, and whether their watermarks agree."""
    rows = connection.execute(_WATERMARK_GROUPS)
    return [
        WatermarkGroup(name, [named(one) for one in sources], *facts)
        for name, sources, *facts in rows
    ]


_GROUPS = "SELECT group_name, members, isolation, created_at FROM pgtrickle.refresh_groups()"


def list_groups(connection: Connection[TupleRow]) -> list[RefreshGroup]:
    """Return the refresh groups and their members."""
    rows = connection.execute(_GROUPS)
    return [
        RefreshGroup(name, [named(one) for one in members], *facts)
        for name, members, *facts in rows
    ]


# The empty array: a name that is qualified needs no path.
_SOURCES = """
    SELECT source_table, source_type, cdc_mode, columns_used
      FROM pgtrickle.list_sources(%s, '{}')
"""


def list_sources(connection: Connection[TupleRow], name: QualifiedName) -> list[ListedSource]:
    """Return what a stream table reads."""
    rows = connection.execute(_SOURCES, [name.sql])
    return [ListedSource(named(one), *facts) for one, *facts in rows]


_STALENESS = "SELECT pgtrickle.get_staleness(%s, '{}')"


def get_staleness(connection: Connection[TupleRow], name: QualifiedName) -> float | None:
    """Return how many seconds ago a stream table was current; None before its first load."""
    [(seconds,)] = connection.execute(_STALENESS, [name.sql]).fetchall()
    return None if seconds is None else float(seconds)


_SPEC = "SELECT pgtrickle.stream_table_spec(%s, '{}')"


def get_spec(connection: Connection[TupleRow], name: QualifiedName) -> dict[str, Any]:
    """Return the definition of a stream table as JSON has it."""
    [(spec,)] = connection.execute(_SPEC, [name.sql]).fetchall()
    return dict(spec)


_BUFFERS = """
    SELECT source_table, cdc_mode, consumers, pending_rows, buffer_bytes
      FROM pgtrickle.change_buffer_sizes()
"""


def list_buffer_sizes(connection: Connection[TupleRow]) -> list[BufferSize]:
    """Return how many changes each source keeps."""
    return [BufferSize(named(name), *facts) for name, *facts in connection.execute(_BUFFERS)]


_EFFICIENCY = """
    SELECT name, total_refreshes, differential_count, full_count, no_data_count,
           avg_differential_ms, avg_full_ms, avg_changed_rows, speedup
      FROM pgtrickle.refresh_efficiency()
"""


def list_efficiency(connection: Connection[TupleRow]) -> list[Efficiency]:
    """Return how often each stream table followed its changes, and at what cost."""
    return [Efficiency(named(name), *facts) for name, *facts in connection.execute(_EFFICIENCY)]


_SERVICE_LEVELS = """
    SELECT name, refreshes, p50_ms, p99_ms, freshness_lag_s, error_rate, error_budget_remaining,
           sla_s, breach_s
      FROM pgtrickle.sla_summary(%s)
"""


def list_service_levels(connection: Connection[TupleRow], hours: float) -> list[ServiceLevel]:
    """Return how each stream table did in the last hours."""
    rows = connection.execute(_SERVICE_LEVELS, [float(hours)])
    return [ServiceLevel(named(name), *facts) for name, *facts in rows]


_DRAW_GRAPH = "SELECT pgtrickle.explain_dag(%s)"


def draw_graph(connection: Connection[TupleRow], output: str) -> str:
    """Return the graph of sources and stream tables, for mermaid or dot."""
    [(text,)] = connection.execute(_DRAW_GRAPH, [output]).fetchall()
    return str(text)


_VERSIONS = """
    SELECT catalog_version, server_version, daemon_running, extension_version, library_version,
           spark_version
      FROM pgtrickle.version()
"""


def get_versions(connection: Connection[TupleRow]) -> Versions:
    """Return the versions of everything that takes part."""
    [(catalog, server, running, migrated_by, daemon, daemon_spark)] = connection.execute(
        _VERSIONS
    ).fetchall()
    return Versions(
        VERSION, catalog, server, running, migrated_by, spark_version(), daemon, daemon_spark
    )
