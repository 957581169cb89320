"""The verbs that explain: the graph, the figures of refreshes, the work of the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgtrickle.catalog.figures.summaries import get_metrics_summary, list_workers
from pgtrickle.catalog.insight.disk_usage import list_disk_usage
from pgtrickle.catalog.insight.profiles import list_profiles
from pgtrickle.catalog.insight.self_monitoring import list_parts
from pgtrickle.catalog.overview import (
    draw_graph,
    get_spec,
    get_staleness,
    list_efficiency,
    list_service_levels,
    list_sources,
    list_tree,
)
from pgtrickle.catalog.scheduling.planner import (
    list_mode_advice,
    list_schedule_advice,
    recommend_schedule,
)
from pgtrickle.model.insight.disk_usage import DiskUsage
from pgtrickle.model.insight.rehearsal import Profile
from pgtrickle.model.insight.self_monitoring import MonitoringPart
from pgtrickle.model.scheduling.recommendation import ModeAdvice, ScheduleAdvice
from pgtrickle.model.status_report import (
    CacheStats,
    DiamondGroup,
    Efficiency,
    ListedSource,
    MetricsSummary,
    ServiceLevel,
    TreeLine,
    WorkerSummary,
)
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import GraphFormat
from pgtrickle.service.insight.status import show_dependencies, show_diamond_groups
from pgtrickle.service.naming import Naming

if TYPE_CHECKING:  # each verb imports its use case when it is called
    from pgtrickle.catalog.console.picture import Picture, PicturePart
    from pgtrickle.service.insight.diagnose import Diagnosis


class InsightVerbs(Naming):
    """Look closer: at the graph, at one stream table, at times and errors, at the compiler.

    It is ``trickle.insight``; ``trickle.status`` and ``trickle.doctor`` give the first look.
    """

    def picture(
        self,
        parts: Sequence[PicturePart] | None = None,
        *,
        ids: Sequence[int] | None = None,
        name: str | None = None,
    ) -> Picture:
        """Return what consoles show, as of one moment: some parts of it, or all.

        ``ids`` limits the latencies to these stream tables; ``name`` adds the definition and the
        history of one.  ``Picture.document()`` is its form in JSON.
        """
        from pgtrickle.service.insight.console import show_picture

        subject = None if name is None else self._name(name)
        return show_picture(self._runtime, parts, ids=ids, subject=subject)

    def dependency_tree(self) -> Listing[TreeLine]:
        """Return the sources of the stream tables, as the lines of a tree."""
        with self._runtime.connection() as connection:
            return Listing(list_tree(connection))

    def dependencies(self) -> dict[str, list[str]]:
        """Return, for each stream table, the stream tables it reads."""
        return show_dependencies(self._runtime)

    def explain_dag(self, format: GraphFormat = "mermaid") -> str:  # noqa: A002 - PostgreSQL's word
        """Draw the graph of sources and stream tables, for ``mermaid`` or ``dot``."""
        with self._runtime.connection() as connection:
            return draw_graph(connection, format)

    def list_sources(self, name: str) -> Listing[ListedSource]:
        """Return the sources of a stream table, and how their changes are captured."""
        with self._runtime.connection() as connection:
            return Listing(list_sources(connection, self._name(name)))

    def diamond_groups(self) -> Listing[DiamondGroup]:
        """Return the stream tables that are refreshed together, and their schedule policies."""
        return Listing(show_diamond_groups(self._runtime))

    def stream_table_spec(self, name: str) -> dict[str, Any]:
        """Return the definition of a stream table as a dictionary, ready for JSON."""
        with self._runtime.connection() as connection:
            return get_spec(connection, self._name(name))

    def get_staleness(self, name: str) -> float | None:
        """Return the age of the contents in seconds; None before the first load."""
        with self._runtime.connection() as connection:
            return get_staleness(connection, self._name(name))

    def refresh_efficiency(self) -> Listing[Efficiency]:
        """Return how often each action was taken, and the time that it took."""
        with self._runtime.connection() as connection:
            return Listing(list_efficiency(connection))

    def sla_summary(self, window_hours: float | None = None) -> Listing[ServiceLevel]:
        """Return the times of refreshes, the age of the contents, failures and error budgets.

        Without a window, the setting ``sla_window_hours`` decides.
        """
        hours = self._runtime.settings.sla_window_hours if window_hours is None else window_hours
        with self._runtime.connection() as connection:
            return Listing(list_service_levels(connection, hours))

    def metrics_summary(self) -> MetricsSummary:
        """Return the figures of this database: now, of the last hour, and what waits."""
        with self._runtime.connection() as connection:
            return get_metrics_summary(connection)

    def cluster_worker_summary(self) -> Listing[WorkerSummary]:
        """Return every process that refreshes stream tables, and what it does."""
        with self._runtime.connection() as connection:
            return Listing(list_workers(connection))

    def recommend_schedule(self, name: str) -> dict[str, Any]:
        """Return the interval that the history speaks for, the peak, the confidence and the reason.

        The keys are those of SQL: ``recommended_interval_seconds``, ``peak_window_cron``,
        ``confidence`` and ``reasoning``.
        """
        with self._runtime.connection() as connection:
            return recommend_schedule(connection, self._name(name))

    def schedule_recommendations(self) -> Listing[ScheduleAdvice]:
        """Return the recommended interval of each stream table beside the one in effect."""
        with self._runtime.connection() as connection:
            return Listing(list_schedule_advice(connection))

    def recommend_refresh_mode(self, name: str | None = None) -> Listing[ModeAdvice]:
        """Return the refresh mode that the history speaks for, of one stream table or of all."""
        with self._runtime.connection() as connection:
            wanted = None if name is None else self._name(name)
            return Listing(list_mode_advice(connection, wanted))

    def list_profiles(self, name: str) -> Listing[Profile]:
        """Return the kept figures of a stream table's rehearsed refreshes, the newest first.

        ``explain_stream_table(name, with_analyze=True)`` makes one.
        """
        with self._runtime.connection() as connection:
            return Listing(list_profiles(connection, self._name(name)))

    def setup_self_monitoring(self, schedule: str = "1m") -> list[str]:
        """Create stream tables over the history of refreshes; return their names.

        They are ``efficiency``, ``anomalies`` and ``buffer_trends`` in the schema
        ``pgtrickle_monitoring``; PostgreSQL computes them.
        """
        from pgtrickle.service.lifecycle.self_monitoring.set_up import set_up_self_monitoring

        return set_up_self_monitoring(self._runtime, schedule)

    def teardown_self_monitoring(self) -> list[str]:
        """Drop the stream tables over the history of refreshes; return their names."""
        from pgtrickle.service.lifecycle.self_monitoring.set_up import tear_down_self_monitoring

        return tear_down_self_monitoring(self._runtime)

    def self_monitoring_status(self) -> Listing[MonitoringPart]:
        """Return the stream tables over the history of refreshes; none: there is no monitoring."""
        with self._runtime.connection() as connection:
            return Listing(list_parts(connection))

    def disk_usage(self) -> Listing[DiskUsage]:
        """Return what each table of stream tables and of pgtrickle takes, the largest first."""
        with self._runtime.connection() as connection:
            return Listing(list_disk_usage(connection))

    def diagnose_errors(self, name: str) -> Listing[Diagnosis]:
        """Return the latest errors of a stream table, what they mean and what to do."""
        from pgtrickle.service.insight.diagnose import diagnose_errors

        return Listing(diagnose_errors(self._runtime, self._name(name)))

    def explain_delta(self, name: str) -> str:
        """Show the statements by which the engine computes a change, stage by stage."""
        from pgtrickle.service.insight.explain import explain_delta

        return explain_delta(self._runtime, self._name(name))

    def explain_query_rewrite(self, query: str) -> dict[str, Any]:
        """Show what each pass of the compiler makes of a query."""
        from pgtrickle.service.insight.explain import explain_query_rewrite

        return explain_query_rewrite(self._runtime, query)

    def cache_stats(self) -> CacheStats:
        """Return the counts of this process's cache of compiled queries."""
        return self._runtime.remembered.stats()

    def clear_caches(self) -> int:
        """Forget compiled queries and forecasts; return how many queries there were."""
        return self._runtime.remembered.clear()
