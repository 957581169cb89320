"""An explanation as a graph in DOT: stages as boxes, operators in them, reads at the bottom."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from pgtrickle.service.insight.explanation.model import Explanation, Operator, ReadNote

_MAX_LABEL = 400  # characters: a graph is an overview; the text has everything


def explanation_dot(explanation: Explanation, name: str) -> str:
    """Return the graph of an explanation."""
    drawing = _Drawing()
    drawing.add(explanation.tree)
    lines = [
        f"digraph {quoted(name)} {{",
        "  rankdir=BT;",
        '  node [shape=box, fontname="sans-serif"];',
        '  graph [fontname="sans-serif"];',
    ]
    for stage, nodes in drawing.stages.items():
        lines += [f"  subgraph {quoted(f'cluster_{stage}')} {{", f"    label={quoted(stage)};"]
        lines += [f"    {line}" for line in nodes]
        lines.append("  }")
    lines += [f"  {line}" for line in drawing.outside]
    return "\n".join([*lines, "}"])


class _Drawing:
    def __init__(self) -> None:
        self.stages: dict[str, list[str]] = {}
        self.outside: list[str] = []  # reads and arrows
        self._numbers = count(1)

    def add(self, operator: Operator) -> str:
        node = f"operator_{next(self._numbers)}"
        lines = self.stages.setdefault(operator.stage, [])
        lines.append(f"{node} [label={quoted(*_label(operator))}];")
        for child in operator.inputs:
            self.outside.append(f"{self.add(child)} -> {node};")
        for read in operator.reads:
            self.outside += self._read(read, node)
        return node

    def _read(self, read: ReadNote, reader: str) -> Iterator[str]:
        node = f"read_{next(self._numbers)}"
        label = [f"{read.kind} read of {read.source}", f"bounded by {read.bounded_by}"]
        colour = ""
        if read.why_unbounded is not None:
            label[1] = f"unbounded: {read.why_unbounded}"
            colour = ", color=red"
        elif read.missing_indexes:
            label += read.missing_indexes
            colour = ", color=orange"
        yield f"{node} [shape=cylinder, label={quoted(*label)}{colour}];"
        yield f"{node} -> {reader} [style=dashed];"


def _label(operator: Operator) -> Iterator[str]:
    yield operator.description
    yield f"rule: {operator.rule.name}"
    for table in operator.state:
        yield f"state: {table.name}"


def quoted(*lines: str) -> str:
    r"""Quote a label of several lines.

    >>> print(quoted('say "hi"', 'a\\b'))
    "say \"hi\"\na\\b"
    """
    return '"' + "\\n".join(_escaped(line[:_MAX_LABEL]) for line in lines) + '"'


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return escaped.replace("\r", "").replace("\n", "\\n")
