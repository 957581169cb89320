"""Every panel: its key, its name, the parts of a picture that it shows, and who draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgtrickle.catalog.console.picture import PicturePart as Part
from pgtrickle.console.sheet import Sheet
from pgtrickle.console.sheets import (
    capture,
    cluster,
    graph,
    lists,
    metrics,
    news,
    overview,
    planner,
    scheduler,
    sinks,
    table,
)
from pgtrickle.console.view import View

# What is read of those stream tables alone that a screen shows.
_OF_SOME = frozenset({Part.LATENCIES, Part.ADVICE})


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of a console."""

    name: str
    key: str
    about: str
    parts: frozenset[Part]
    draw: Callable[[View], Sheet]
    pace: float = 0.0  # seconds between two looks, at least: a look that costs more

    @property
    def of_some(self) -> bool:
        """Whether more is read of the stream tables on the screen than of others."""
        return not _OF_SOME.isdisjoint(self.parts)


_STATE = {Part.TABLES, Part.RUNNING, Part.HOLDS}

PANELS = {
    one.name: one
    for one in (
        Panel(
            "overview",
            "1",
            "every stream table: state, freshness, latencies",
            frozenset({*_STATE, Part.LATENCIES}),
            overview.draw,
        ),
        Panel(
            "graph",
            "2",
            "stream tables above their sources",
            frozenset({*_STATE, Part.GRAPH}),
            graph.draw,
        ),
        Panel(
            "table",
            "3",
            "one stream table: definition, plan, stages, history, costs",
            frozenset({*_STATE, Part.DEFINITION, Part.HISTORY}),
            table.draw,
        ),
        Panel(
            "capture",
            "4",
            "sources: buffers, lag, slots",
            frozenset({Part.TABLES, Part.GRAPH, Part.CAPTURE, Part.SLOTS}),
            capture.draw,
        ),
        Panel(
            "scheduler",
            "5",
            "daemons, what runs, what is held and why, what is due",
            frozenset({*_STATE, Part.DAEMONS}),
            scheduler.draw,
        ),
        Panel(
            "sinks",
            "6",
            "copies in the lake, outboxes, relays",
            frozenset({Part.SINKS, Part.OUTBOXES, Part.RELAYS, Part.INBOUND}),
            sinks.draw,
            pace=2.0,
        ),
        Panel(
            "snapshots",
            "7",
            "snapshots of stream tables",
            frozenset({Part.SNAPSHOTS}),
            lists.draw_snapshots,
        ),
        Panel(
            "requests",
            "8",
            "what sessions ask of the daemon",
            frozenset({Part.REQUESTS}),
            lists.draw_requests,
        ),
        Panel("alerts", "9", "alerts and refreshes as they come", frozenset(), news.draw_alerts),
        Panel(
            "settings",
            "0",
            "settings of the database",
            frozenset({Part.SETTINGS}),
            lists.draw_settings,
        ),
        Panel(
            "log",
            "l",
            "the latest refreshes, the log file",
            frozenset({Part.TIMELINE}),
            news.draw_log,
        ),
        Panel(
            "planner",
            "n",
            "the schedules that the history speaks for",
            frozenset({Part.TABLES, Part.ADVICE}),
            planner.draw,
            pace=60.0,
        ),
        Panel(
            "cluster",
            "w",
            "every process that refreshes, and what it does",
            frozenset({Part.WORKERS}),
            cluster.draw,
        ),
        Panel(
            "metrics",
            "m",
            "figures of the database, times and failures of a day",
            frozenset({Part.METRICS, Part.SERVICE_LEVELS}),
            metrics.draw,
            pace=10.0,
        ),
    )
}
