"""Panels and dashboards as values, and the JSON of Grafana 11 or newer that says the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_SCHEMA = 39  # of Grafana 11.0; newer ones read it and write their own
_WIDTH = 24  # columns of a dashboard
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_RED, _AMBER, _GREEN = "red", "orange", "green"


@dataclass(frozen=True, slots=True)
class Series:
    """One expression, and what a legend calls its lines."""

    expression: str
    legend: str = "__auto"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; units are those of Grafana."""

    title: str
    series: tuple[Series, ...]
    doc: str
    unit: str = "short"
    kind: str = "timeseries"  # or stat
    width: int = 8
    height: int = 8
    warns: float | None = None  # the value from which it is drawn in amber
    alarms: float | None = None  # and in red
    rising: bool = True  # large values are the bad ones


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side below a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """What the reader of a dashboard chooses: a label of a metric."""

    name: str
    label: str
    query: str
    several: bool = True


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard, which is one file."""

    file: str  # without its ending; also its id in links
    title: str
    doc: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()


DATABASES = Variable("database", "Database", "label_values(pgtrickle_version, database)")


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a panel, or the heading of a row, lies."""

    what: Panel | Row
    x: int
    y: int
    width: int = _WIDTH
    height: int = 1


def place(dashboard: Dashboard) -> Iterator[Placed]:
    """Lay the panels out: a row below a row, panels from the left."""
    y = 0
    for row in dashboard.rows:
        yield Placed(row, 0, y)
        x, tallest, y = 0, 0, y + 1
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, tallest, y = 0, 0, y + tallest
            yield Placed(panel, x, y, panel.width, panel.height)
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest


def write_json(dashboard: Dashboard) -> str:
    """Return the file that Grafana imports."""
    panels = [_placed(number, one) for number, one in enumerate(place(dashboard), 1)]
    found = {
        "annotations": {"list": []},
        "description": dashboard.doc,
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "id": None,
        "links": [_LINKS],
        "panels": panels,
        "refresh": "30s",
        "schemaVersion": _SCHEMA,
        "tags": ["pgtrickle"],
        "templating": {"list": [_DATA_SOURCE, *map(_variable, _variables(dashboard))]},
        "time": {"from": "now-3h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": dashboard.title,
        "uid": dashboard.file.replace("_", "-"),
        "version": 1,
    }
    return json.dumps(found, indent=2) + "\n"


def _variables(dashboard: Dashboard) -> Sequence[Variable]:
    return (DATABASES, *dashboard.variables)


_LINKS = {
    "asDropdown": True,
    "icon": "external link",
    "includeVars": True,
    "keepTime": True,
    "tags": ["pgtrickle"],
    "targetBlank": False,
    "title": "pgtrickle",
    "type": "dashboards",
}
_DATA_SOURCE = {
    "current": {},
    "hide": 0,
    "includeAll": False,
    "label": "Data source",
    "multi": False,
    "name": "datasource",
    "options": [],
    "query": "prometheus",
    "refresh": 1,
    "regex": "",
    "type": "datasource",
}


def _variable(one: Variable) -> dict[str, Any]:
    every = {"current": {"selected": True, "text": "All", "value": "$__all"}, "allValue": ".*"}
    return {
        "name": one.name,
        "label": one.label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": one.query,
        "query": {"qryType": 1, "query": one.query, "refId": one.name},
        "refresh": 2,
        "regex": "",
        "sort": 1,
        "hide": 0,
        "options": [],
        "multi": one.several,
        "includeAll": one.several,
        **(every if one.several else {"current": {}}),
    }


def _placed(number: int, one: Placed) -> dict[str, Any]:
    place = {"h": one.height, "w": one.width, "x": one.x, "y": one.y}
    if isinstance(one.what, Row):
        return {
            "id": number,
            "type": "row",
            "title": one.what.title,
            "collapsed": False,
            "gridPos": place,
            "panels": [],
        }
    panel = one.what
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.doc,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [_target(chr(ord("A") + n), series) for n, series in enumerate(panel.series)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _STAT if panel.kind == "stat" else _TIME_SERIES,
    }


def _target(letter: str, series: Series) -> dict[str, Any]:
    return {
        "refId": letter,
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": series.expression,
        "legendFormat": series.legend,
        "range": True,
    }


_STAT = {
    "colorMode": "value",
    "graphMode": "area",
    "justifyMode": "auto",
    "orientation": "auto",
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    "textMode": "auto",
}
_TIME_SERIES = {
    "legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom"},
    "tooltip": {"mode": "multi", "sort": "desc"},
}


def _defaults(panel: Panel) -> dict[str, Any]:
    if panel.rising:
        marks = [(_GREEN, None), (_AMBER, panel.warns), (_RED, panel.alarms)]
    else:  # below the mark is bad
        marks = [(_RED, None), (_GREEN, panel.alarms)]
    steps = [
        {"color": color, "value": value}
        for number, (color, value) in enumerate(marks)
        if number == 0 or value is not None
    ]
    marked = panel.warns is not None or panel.alarms is not None
    found: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
        "color": {"mode": "thresholds" if panel.kind == "stat" else "palette-classic"},
    }
    if panel.kind == "timeseries":
        found["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 8,
            "lineWidth": 1,
            "showPoints": "never",
            "spanNulls": False,
            "thresholdsStyle": {"mode": "line" if marked else "off"},
        }
    return found
