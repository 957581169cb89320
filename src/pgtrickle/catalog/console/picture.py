"""A picture: everything that a console shows, read in one transaction and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from pgtrickle.catalog.capture.health import CaptureHealth
from pgtrickle.catalog.console.lines import (
    Definition,
    Edge,
    Latencies,
    Moment,
    RequestLine,
    SettingLine,
    SlotLine,
    TableLine,
)
from pgtrickle.catalog.refreshes.history import Refresh
from pgtrickle.model.lake.sink import SinkStatus
from pgtrickle.model.scheduling.recommendation import ScheduleAdvice
from pgtrickle.model.status_report import (
    Daemon,
    HealthCheck,
    Hold,
    MetricsSummary,
    RunningRefresh,
    ServiceLevel,
    WorkerSummary,
)
from pgtrickle.model.streams.inbound import InboundStatus
from pgtrickle.model.streams.outbox import Outbox
from pgtrickle.model.streams.relay import RelayStatus
from pgtrickle.model.table_snapshot import ListedSnapshot
from pgtrickle.model.text.json_values import json_value
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown

LATENCIES = 20  # refreshes that a sparkline shows


class PicturePart(Enum):
    """A part of a picture, which one statement reads."""

    TABLES = "tables"
    LATENCIES = "latencies"
    GRAPH = "graph"
    CAPTURE = "capture"
    SLOTS = "slots"
    DAEMONS = "daemons"
    RUNNING = "running"
    HOLDS = "holds"
    CHECKS = "checks"
    SINKS = "sinks"
    OUTBOXES = "outboxes"
    RELAYS = "relays"
    INBOUND = "inbound"
    SNAPSHOTS = "snapshots"
    REQUESTS = "requests"
    SETTINGS = "settings"
    TIMELINE = "timeline"
    WORKERS = "workers"
    METRICS = "metrics"
    SERVICE_LEVELS = "service_levels"
    ADVICE = "advice"
    DEFINITION = "definition"  # of the one stream table that is looked at
    HISTORY = "history"  # likewise


ALL = frozenset(PicturePart) - {PicturePart.DEFINITION, PicturePart.HISTORY}


@dataclass(frozen=True, slots=True)
class Picture(Shown):
    """The state of a database at one moment; a part that was not asked for is None."""

    moment: Moment
    tables: tuple[TableLine, ...] | None = None
    latencies: tuple[Latencies, ...] | None = None
    graph: tuple[Edge, ...] | None = None
    capture: tuple[CaptureHealth, ...] | None = None
    slots: tuple[SlotLine, ...] | None = None
    daemons: tuple[Daemon, ...] | None = None
    running: tuple[RunningRefresh, ...] | None = None
    holds: tuple[Hold, ...] | None = None
    checks: tuple[HealthCheck, ...] | None = None
    sinks: tuple[SinkStatus, ...] | None = None
    outboxes: tuple[Outbox, ...] | None = None
    relays: tuple[RelayStatus, ...] | None = None
    inbound: tuple[InboundStatus, ...] | None = None
    snapshots: tuple[ListedSnapshot, ...] | None = None
    requests: tuple[RequestLine, ...] | None = None
    settings: tuple[SettingLine, ...] | None = None
    timeline: tuple[Refresh, ...] | None = None  # the latest refreshes of all, the newest first
    workers: tuple[WorkerSummary, ...] | None = None
    metrics: tuple[MetricsSummary, ...] | None = None  # one line
    service_levels: tuple[ServiceLevel, ...] | None = None
    advice: tuple[ScheduleAdvice, ...] | None = None  # of the planner
    definition: tuple[Definition, ...] | None = None  # of one stream table; empty if it is gone
    history: tuple[Refresh, ...] | None = None

    def document(self) -> dict[str, Any]:
        """Return the picture as JSON can hold it, without the parts that were not asked for."""
        return {
            one.name: _plain(value)
            for one in fields(self)
            if (value := getattr(self, one.name)) is not None
        }


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it.

    >>> _plain(Edge(1, "public.a", "public.t", "TABLE"))
    {'id': 1, 'name': 'public.a', 'source': 'public.t', 'source_type': 'TABLE'}
    """
    match value:
        case QualifiedName():
            return str(value)
        case Enum():
            return value.value
        case Mapping():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case _ if is_dataclass(value):
            return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
        case _:
            return json_value(value)
