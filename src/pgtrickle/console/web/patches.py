"""Say of a panel that was sent before only what has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COUNTING = 3  # parts of a cell that does not count
_MOST = 0.5  # of the lines or nodes: beyond that, everything is sent


def patch(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what changed, by the places of lines and nodes; None if the whole is to be sent.

    >>> lines = [{"key": "a", "cells": [["1"]]}, {"key": "b", "cells": [["2"]]}]
    >>> sheet = {"columns": [], "lines": lines}
    >>> before = {"moment": 1, "sheet": sheet}
    >>> lines = [lines[0], {"key": "b", "cells": [["3"]]}]
    >>> patch(before, {"moment": 2, "sheet": {"columns": [], "lines": lines}})
    {'moment': 2, 'lines': {1: {'key': 'b', 'cells': [['3']]}}, 'nodes': {}}
    >>> patch(before, {"moment": 2, "sheet": {"columns": [], "lines": lines[:1]}}) is None
    True
    """
    if before is None or _frame(before) != _frame(after):
        return None
    changed = []
    for old, new in (
        (before["sheet"]["lines"], after["sheet"]["lines"]),
        (_nodes(before), _nodes(after)),
    ):
        if len(old) != len(new):
            return None
        found = {
            place: one
            for place, (was, one) in enumerate(zip(old, new, strict=True))
            if was != one and _steady(was) != _steady(one, was)
        }
        if len(found) > max(len(new) * _MOST, 1):
            return None
        changed.append(found)
    lines, nodes = changed
    return {"moment": after["moment"], "lines": lines, "nodes": nodes}


def _steady(one: Mapping[str, Any], was: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a line or a node with the moments that it counts from; nearly the same are the same.

    They are rounded to seconds, now up and now down.
    """
    own = dict(one)
    if "cells" in one:
        cells = was["cells"] if was and len(was["cells"]) == len(one["cells"]) else one["cells"]
        own["cells"] = [
            [*cell[:2], _near(cell[3], before[3] if len(before) > _COUNTING else None)]
            if len(cell) > _COUNTING
            else cell
            for cell, before in zip(one["cells"], cells, strict=True)
        ]
    if one.get("since") is not None:
        own["since"] = _near(one["since"], was.get("since") if was else None)
    return own


def _near(since: float, before: float | None) -> float:
    return since if before is None or abs(since - before) > 1 else before


def is_nothing(found: Mapping[str, Any]) -> bool:
    """Whether a patch changes nothing but the moment."""
    return not (found["lines"] or found["nodes"])


def _nodes(document: Mapping[str, Any]) -> list[Any]:
    return list(document.get("graph", {}).get("nodes", ()))


def _frame(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return all but the moment, the lines and the nodes, of which the keys stay."""
    graph = document.get("graph")
    sheet = document["sheet"]
    return {
        **{name: one for name, one in document.items() if name not in {"moment", "sheet", "graph"}},
        "sheet": {name: one for name, one in sheet.items() if name != "lines"},
        "keys": [one["key"] for one in sheet["lines"]],
        "graph": graph and [graph["edges"], graph["more"], [one["name"] for one in graph["nodes"]]],
    }
