"""The verbs that show the state: daemons, problems, holds, notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pgtrickle.catalog.lake.sinks import list_sink_status
from pgtrickle.catalog.overview import (
    count_tables,
    draw_graph,
    get_queue,
    get_spec,
    get_staleness,
    get_versions,
    list_buffer_sizes,
    list_checks,
    list_daemons,
    list_efficiency,
    list_fuses,
    list_gates,
    list_groups,
    list_hold_reasons,
    list_running,
    list_service_levels,
    list_sources,
    list_tree,
    list_troubled,
    list_watermark_groups,
    list_watermarks,
)
from pgtrickle.model.status_report import (
    BufferSize,
    CacheStats,
    DiamondGroup,
    Efficiency,
    FuseStatus,
    GateStatus,
    HealthCheck,
    Hold,
    ListedSource,
    RefreshGroup,
    ServiceLevel,
    StatusReport,
    TreeLine,
    Versions,
    Watermark,
    WatermarkGroup,
    worst,
)
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.version import VERSION
from pgtrickle.model.words import GraphFormat
from pgtrickle.service.insight.channels import Notice, follow_notices
from pgtrickle.service.insight.status import show_diamond_groups
from pgtrickle.service.runtime import Runtime


class Overview:
    """These verbs, as methods of ``Trickle``."""

    _runtime: Runtime

    def _name(self, text: str) -> QualifiedName:
        raise NotImplementedError

    def status(self) -> StatusReport:
        """Return the daemons, the queue, the running refreshes, and what needs attention."""
        with self._runtime.connection() as connection:
            checks = list_checks(connection)
            behind, failing, suspended = list_troubled(connection)
            return StatusReport(
                severity=worst(checks),
                checks=checks,
                daemons=list_daemons(connection),
                queue=get_queue(connection),
                stream_tables=count_tables(connection),
                running=list_running(connection),
                behind=behind,
                failing=failing,
                suspended=suspended,
                sinks=list_sink_status(connection),
                holds=list_hold_reasons(connection),
            )

    def health_check(self) -> Listing[HealthCheck]:
        """Return the health checks with their severities: OK, WARNING or CRITICAL."""
        with self._runtime.connection() as connection:
            return Listing(list_checks(connection))

    def dependency_tree(self) -> Listing[TreeLine]:
        """Return the sources of the stream tables, as the lines of a tree."""
        with self._runtime.connection() as connection:
            return Listing(list_tree(connection))

    def list_holds(self) -> Listing[Hold]:
        """Return the stream tables that the scheduler does not refresh, with each reason."""
        with self._runtime.connection() as connection:
            return Listing(list_hold_reasons(connection))

    def fuse_status(self) -> Listing[FuseStatus]:
        """Return the fuse of each stream table."""
        with self._runtime.connection() as connection:
            return Listing(list_fuses(connection))

    def bootstrap_gate_status(self) -> Listing[GateStatus]:
        """Return the sources that are or were gated, and their consumers."""
        with self._runtime.connection() as connection:
            return Listing(list_gates(connection))

    def watermarks(self) -> Listing[Watermark]:
        """Return the watermarks of the sources."""
        with self._runtime.connection() as connection:
            return Listing(list_watermarks(connection))

    def watermark_status(self) -> Listing[WatermarkGroup]:
        """Return the watermark groups, and whether their watermarks agree."""
        with self._runtime.connection() as connection:
            return Listing(list_watermark_groups(connection))

    def refresh_groups(self) -> Listing[RefreshGroup]:
        """Return the refresh groups and their members."""
        with self._runtime.connection() as connection:
            return Listing(list_groups(connection))

    def list_sources(self, name: str) -> Listing[ListedSource]:
        """Return the sources of a stream table, and how their changes are captured."""
        with self._runtime.connection() as connection:
            return Listing(list_sources(connection, self._name(name)))

    def get_staleness(self, name: str) -> float | None:
        """Return the age of the contents in seconds; None before the first load."""
        with self._runtime.connection() as connection:
            return get_staleness(connection, self._name(name))

    def stream_table_spec(self, name: str) -> dict[str, Any]:
        """Return the definition of a stream table as a dictionary, ready for JSON."""
        with self._runtime.connection() as connection:
            return get_spec(connection, self._name(name))

    def change_buffer_sizes(self) -> Listing[BufferSize]:
        """Return the number of captured changes per source; reads the buffers to count them."""
        with self._runtime.connection() as connection:
            return Listing(list_buffer_sizes(connection))

    def refresh_efficiency(self) -> Listing[Efficiency]:
        """Return how often each action was taken, and the time that it took."""
        with self._runtime.connection() as connection:
            return Listing(list_efficiency(connection))

    def sla_summary(self, window_hours: float = 24) -> Listing[ServiceLevel]:
        """Return the times of refreshes, the age of the contents, and the failures."""
        with self._runtime.connection() as connection:
            return Listing(list_service_levels(connection, window_hours))

    def diamond_groups(self) -> Listing[DiamondGroup]:
        """Return the stream tables that are refreshed together, and their schedule policies."""
        return Listing(show_diamond_groups(self._runtime))

    def cache_stats(self) -> CacheStats:
        """Return the counts of this process's cache of compiled queries."""
        return self._runtime.remembered.stats()

    def clear_caches(self) -> int:
        """Forget compiled queries and forecasts; return how many queries there were."""
        return self._runtime.remembered.clear()

    def explain_dag(self, format: GraphFormat = "mermaid") -> str:  # noqa: A002 - PostgreSQL's word
        """Draw the graph of sources and stream tables, for ``mermaid`` or ``dot``."""
        with self._runtime.connection() as connection:
            return draw_graph(connection, format)

    def version(self) -> Versions:
        """Return the versions of package, catalog and server, and whether a daemon runs."""
        with self._runtime.connection() as connection:
            return Versions(VERSION, *get_versions(connection))

    def follow(
        self,
        names: Sequence[str] = (),
        *,
        listening: Callable[[], None] = lambda: None,
        seconds: float | None = None,
    ) -> Iterator[Notice]:
        """Yield notices of refreshes and alerts as they happen, of these stream tables or all.

        ``listening`` is called as soon as no notice can be missed. Ends after ``seconds``, if
        given.
        """
        wanted = [str(self._name(name)) for name in names]
        return follow_notices(self._runtime, wanted, listening=listening, seconds=seconds)
