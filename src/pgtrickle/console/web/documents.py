"""Sheets, graphs and charts as JSON, which the page draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgtrickle.catalog.console.picture import Picture
from pgtrickle.console.figures import age, day_and_clock
from pgtrickle.console.panels import Panel
from pgtrickle.console.sheet import Line, Sheet
from pgtrickle.console.sheets.overview import state_of, target_of
from pgtrickle.console.view import View
from pgtrickle.errors import TrickleError
from pgtrickle.model.text.passwords import hide_passwords
from pgtrickle.service.lifecycle.validate import Validation

_LINES = 400  # of a sheet that are sent; a filter finds the others
_NODES = 600  # of a graph


def panel_document(panel: Panel, view: View, words: str) -> dict[str, Any]:
    """Describe a panel: its sheet, what is special about it, and the moment."""
    sheet = panel.draw(view).filtered(words)
    document: dict[str, Any] = {
        "panel": panel.name,
        "subject": view.subject,
        "moment": _moment(view.picture),
        "sheet": sheet_document(sheet, view.picture.moment.taken_at.timestamp()),
    }
    if panel.name == "graph":
        document["graph"] = graph_document(view.picture)
    if panel.name == "table":
        document["chart"] = chart_document(view.picture)
    return document


def _moment(picture: Picture) -> dict[str, Any]:
    moment = picture.moment
    return {
        "taken_at": moment.taken_at.isoformat(),
        "epoch": moment.taken_at.timestamp(),
        "clock": f"{moment.taken_at:%H:%M:%S}",
        "database": moment.database,
        "role": moment.role,
        "server": moment.server_version.split()[0],
        "standby": moment.standby,
        "served": moment.served,
        "queued": moment.queued,
        "running": moment.running,
    }


def sheet_document(sheet: Sheet, now: float) -> dict[str, Any]:
    """Describe a sheet; ages count by themselves on the page, and are not sent each second."""
    counting = [place for place, one in enumerate(sheet.columns) if one.counts]
    return {
        "columns": [{"title": one.title, "right": one.right} for one in sheet.columns],
        "lines": [_line(one, counting, now) for one in sheet.lines[:_LINES]],
        "more": max(len(sheet.lines) - _LINES, 0),
        "empty": sheet.empty,
    }


def _line(line: Line, counting: Sequence[int], now: float) -> dict[str, Any]:
    cells = [[one.text, one.tone.value, one.order] for one in line.cells]
    for place in () if line.spans else counting:
        found = line.cells[place]
        if found.order is not None:
            since = round(now - found.order)
            cells[place] = [f"/{found.text.partition('/')[2]}", found.tone.value, -since, since]
    return {"key": line.key, "spans": line.spans, "cells": cells}


def graph_document(picture: Picture) -> dict[str, Any]:
    """Describe the graph: a node for each relation, and who reads what."""
    now = picture.moment.taken_at.timestamp()
    running = {one.stream_table for one in picture.running or ()}
    held = {one.stream_table for one in picture.holds or ()}
    nodes: dict[str, dict[str, Any]] = {}
    for table in picture.tables or ():
        state = state_of(table, running, held)
        nodes[table.name] = {
            "name": table.name,
            "kind": "stream table",
            "state": state.text,
            "tone": state.tone.value,
            "age": f"/{age(target_of(table))}",
            "since": None if table.age_s is None else round(now - table.age_s),
        }
    for edge in picture.graph or ():
        kind = edge.source_type.lower().replace("_", " ")
        source = {"name": edge.source, "kind": kind, "state": "", "tone": "plain", "age": ""}
        nodes.setdefault(edge.source, source)
    shown = dict(list(nodes.items())[:_NODES])
    edges = [
        [one.source, one.name]
        for one in picture.graph or ()
        if one.source in shown and one.name in shown
    ]
    return {"nodes": list(shown.values()), "edges": edges, "more": len(nodes) - len(shown)}


def chart_document(picture: Picture) -> list[dict[str, Any]]:
    """Describe the refreshes of one stream table as points in time, the oldest first."""
    history = list(reversed(picture.history or ()))
    before = [None, *(one.data_timestamp for one in history)]
    return [
        {
            "at": day_and_clock(one.start_time),
            "took": None
            if one.end_time is None
            else (one.end_time - one.start_time).total_seconds() * 1000,
            "predicted": one.predicted_ms,
            "cost": one.actual_ms,
            "rows": one.delta_row_count,
            # How old the contents were when they were replaced.
            "age": None
            if one.end_time is None or earlier is None
            else (one.end_time - earlier).total_seconds() * 1000,
            "action": one.action.value if one.action else "",
            "failed": one.error_message is not None,
        }
        for one, earlier in zip(history, before, strict=False)
    ]


def error_document(error: TrickleError) -> dict[str, Any]:
    """Describe an error, with no password in it."""
    return {
        "code": error.code,
        "message": hide_passwords(str(error)),
        "detail": hide_passwords(error.detail),
        "hint": hide_passwords(error.hint),
    }


def validation_document(validation: Validation) -> dict[str, Any]:
    """Describe what would become of a query."""
    mode = validation.refresh_mode
    return {
        "usable": validation.usable,
        "differential": validation.differential,
        "refresh_mode": None if mode is None else mode.value,
        "reasons": [error_document(one) for one in validation.reasons],
        "columns": [[one.name, str(one.type)] for one in validation.columns],
        "sources": [[str(one.name), list(one.columns)] for one in validation.sources],
    }
