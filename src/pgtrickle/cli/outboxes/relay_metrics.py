"""The metrics of pipelines that deliver."""

from __future__ import annotations

from collections.abc import Callable

from pgtrickle.cli.outboxes.pipeline_metrics import PipelineMetrics
from pgtrickle.model import metrics
from pgtrickle.model.metrics import Metric
from pgtrickle.model.streams.relay import RelayStatus

_VALUES: tuple[tuple[Metric, Callable[[RelayStatus], float | None]], ...] = (
    (metrics.RELAY_MESSAGES, lambda one: one.messages),
    (metrics.RELAY_RETRIES, lambda one: one.retries),
    (metrics.RELAY_IN_FLIGHT, lambda one: one.in_flight),
    (metrics.RELAY_LAG_ENTRIES, lambda one: one.lag_entries),
    (metrics.RELAY_LAG_ROWS, lambda one: one.lag_rows),
    (metrics.RELAY_LAG_SECONDS, lambda one: one.lag_seconds),
    (metrics.RELAY_DEAD_LETTERS, lambda one: one.dead_letters),
)
STATES = (
    "new",
    "starting",
    "snapshot",
    "streaming",
    "retrying",
    "waiting",
    "paused",
    "blocked",
    "needs_snapshot",
    "failed",
    "stopped",
)


METRICS = PipelineMetrics(_VALUES, metrics.RELAY_STATE, STATES)
