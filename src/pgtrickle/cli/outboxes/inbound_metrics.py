"""The metrics of pipelines that receive."""

from __future__ import annotations

from collections.abc import Callable

from pgtrickle.cli.outboxes.pipeline_metrics import PipelineMetrics
from pgtrickle.model import metrics
from pgtrickle.model.metrics import Metric
from pgtrickle.model.streams.inbound import InboundStatus

_VALUES: tuple[tuple[Metric, Callable[[InboundStatus], float | None]], ...] = (
    (metrics.INBOUND_MESSAGES, lambda one: one.messages),
    (metrics.INBOUND_DUPLICATES, lambda one: one.duplicates),
    (metrics.INBOUND_RETRIES, lambda one: one.retries),
    (metrics.INBOUND_LAG, lambda one: one.lag),
    (metrics.INBOUND_DEAD_LETTERS, lambda one: one.dead_letters),
)
STATES = (
    "new",
    "starting",
    "receiving",
    "full",
    "retrying",
    "waiting",
    "paused",
    "blocked",
    "lost",
    "failed",
    "stopped",
)


METRICS = PipelineMetrics(_VALUES, metrics.INBOUND_STATE, STATES)
