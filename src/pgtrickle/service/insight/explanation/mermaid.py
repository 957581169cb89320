"""An explanation as a graph in Mermaid: stages as boxes, operators in them, reads at the bottom."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from pgtrickle.service.insight.explanation.model import Explanation, Operator, ReadNote

_MAX_LABEL = 400  # characters: a graph is an overview; the text has everything
_ESCAPES = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\\": "#92;"}


def mermaid_label(*lines: str) -> str:
    """Quote a label of several lines; nothing in it is markup.

    >>> mermaid_label('say "hi"', 'a<b')
    '"say #quot;hi#quot;<br/>a#lt;b"'
    """
    return '"' + "<br/>".join(_escaped(line[:_MAX_LABEL]) for line in lines) + '"'


def explanation_mermaid(explanation: Explanation) -> str:
    """Return the graph of an explanation."""
    drawing = _Drawing()
    drawing.add(explanation.tree)
    lines = ["graph BT"]
    for number, (stage, nodes) in enumerate(drawing.stages.items()):
        lines.append(f"  subgraph cluster_{number}[{mermaid_label(stage)}]")
        lines += [f"    {line}" for line in nodes]
        lines.append("  end")
    return "\n".join([*lines, *(f"  {line}" for line in drawing.outside)])


class _Drawing:
    def __init__(self) -> None:
        self.stages: dict[str, list[str]] = {}
        self.outside: list[str] = []  # reads and arrows
        self._numbers = count(1)

    def add(self, operator: Operator) -> str:
        node = f"operator_{next(self._numbers)}"
        told = [operator.description, f"rule: {operator.rule.name}"]
        told += [f"state: {table.name}" for table in operator.state]
        self.stages.setdefault(operator.stage, []).append(f"{node}[{mermaid_label(*told)}]")
        for child in operator.inputs:
            self.outside.append(f"{self.add(child)} --> {node}")
        for read in operator.reads:
            self.outside += self._read(read, node)
        return node

    def _read(self, read: ReadNote, reader: str) -> Iterator[str]:
        node = f"read_{next(self._numbers)}"
        told = [f"{read.kind} read of {read.source}", f"bounded by {read.bounded_by}"]
        if read.why_unbounded is not None:
            told[1] = f"unbounded: {read.why_unbounded}"
        told += read.missing_indexes
        yield f"{node}[({mermaid_label(*told)})]"
        yield f"{node} -.-> {reader}"


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(one, one if one.isprintable() else " ") for one in text)
