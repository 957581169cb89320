"""Every panel: its key, its name, the parts of a picture that it shows, and who draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgtrickle.catalog.console.picture import PicturePart as Part
from pgtrickle.console.sheet import Sheet
from pgtrickle.console.sheets import capture, graph, lists, news, overview, scheduler, table
from pgtrickle.console.view import View


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of a console."""

    name: str
    key: str
    about: str
    parts: frozenset[Part]
    draw: Callable[[View], Sheet]


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
        Panel("sinks", "6", "copies in the lake", frozenset({Part.SINKS}), lists.draw_sinks),
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
    )
}
