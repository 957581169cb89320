"""A rehearsal as a graph, for the languages that draw one: reads, stages, and the apply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pgtrickle.model.insight.rehearsal import Rehearsal
from pgtrickle.service.insight.explanation.dot import quoted
from pgtrickle.service.insight.explanation.mermaid import mermaid_label
from pgtrickle.service.insight.rehearsed import words


@dataclass(frozen=True, slots=True)
class _Node:
    key: str
    lines: tuple[str, ...]
    read: bool  # or a stage
    into: str  # the key of the node that takes its rows; empty: none does


def rehearsal_dot(rehearsal: Rehearsal) -> str:
    """Return the graph in DOT."""
    lines = [
        f"digraph {quoted(rehearsal.stream_table)} {{",
        "  rankdir=BT;",
        '  node [shape=box, fontname="sans-serif"];',
    ]
    for node in _nodes(rehearsal):
        shape = ", shape=cylinder" if node.read else ""
        lines.append(f"  {node.key} [label={quoted(*node.lines)}{shape}];")
        if node.into:
            lines.append(f"  {node.key} -> {node.into};")
    return "\n".join([*lines, "}"])


def rehearsal_mermaid(rehearsal: Rehearsal) -> str:
    """Return the graph in Mermaid."""
    lines = ["graph BT"]
    for node in _nodes(rehearsal):
        begin, end = ("[(", ")]") if node.read else ("[", "]")
        lines.append(f"  {node.key}{begin}{mermaid_label(*node.lines)}{end}")
        if node.into:
            lines.append(f"  {node.key} --> {node.into}")
    return "\n".join(lines)


def _nodes(rehearsal: Rehearsal) -> Iterator[_Node]:
    written = (
        f"{words.rows(rehearsal.rows_inserted)} inserted,"
        f" {words.rows(rehearsal.rows_deleted)} deleted"
    )
    took = f"{rehearsal.total_ms:.1f} ms, rolled back" if rehearsal.ran else "not rehearsed"
    head = f"{rehearsal.stream_table}: {rehearsal.action}"
    yield _Node("result", (head, rehearsal.reason, written, took), read=False, into="")
    names = [stage.name for stage in rehearsal.stages]
    for number, stage in enumerate(rehearsal.stages):
        key, later = f"stage_{number}", rehearsal.stages[number + 1 :]
        takers = [one.name for one in later if any(r.source == stage.name for r in one.reads)]
        into = f"stage_{names.index(takers[0])}" if takers else "result"
        if not takers and later:
            into = f"stage_{number + 1}"
        told = (f"{stage.name}, {stage.engine}", words.flow(stage), words.steps(stage.timings_ms))
        pruned = tuple(f"pruned: {source}" for source in stage.pruned)
        yield _Node(key, (*told, *pruned), read=False, into=into)
        for place, one in enumerate(stage.reads):
            yield _Node(f"read_{number}_{place}", (words.read(one),), read=True, into=key)
