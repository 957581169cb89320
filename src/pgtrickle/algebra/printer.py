"""Plans as one line of relational algebra, and as an indented tree."""

from __future__ import annotations

from typing import assert_never

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Project,
    Recompute,
    Scan,
    UnionAll,
    Version,
    Weigh,
)
from pgtrickle.algebra.schema import children_of

_MARKS = {Version.AFTER: "⁺", Version.BEFORE: "⁻", Version.BOTH: "±"}


def show(node: Node) -> str:
    """Print a plan in one line: ``Δ`` marks changes, ``⁻``, ``⁺``, ``±`` the versions."""
    match node:
        case Scan():
            name = node.alias
            if node.version is Version.CHANGES:
                name = f"Δ{name}"
            else:
                name += _MARKS[node.version]
            return f"σ[{node.predicate.sql}]({name})" if node.predicate else name
        case Filter():
            return f"σ[{node.predicate.sql}]({show(node.child)})"
        case Project():
            names = ", ".join(output.name for output in node.outputs)
            return f"π[{names}]({show(node.child)})"
        case InnerJoin():
            on = f"[{node.on.sql}]" if node.on else ""
            return f"({show(node.left)} ⋈{on} {show(node.right)})"
        case UnionAll():
            return "(" + " + ".join(show(child) for child in node.children) + ")"
        case Aggregate():
            keys = ", ".join(column.name for column in node.keys)
            return f"γ[{keys}]({show(node.child)})"
        case Weigh():
            return f"({node.factor.sql} · {show(node.child)})"
        case Recompute():
            keys = ", ".join(column.name for column in node.keys)
            return f"ρ[{keys}]({show(node.child)})"
    assert_never(node)


def describe(node: Node) -> str:
    """Name one operator and its arguments, without its inputs."""
    match node:
        case Scan():
            text = f"Scan {node.source.relation or node.source.key} as {node.alias}"
            return f"{text}, where {node.predicate.sql}" if node.predicate else text
        case Filter():
            return f"Filter {node.predicate.sql}"
        case Project():
            return "Project " + ", ".join(
                f"{output.scalar.sql} as {output.name}" for output in node.outputs
            )
        case InnerJoin():
            return f"InnerJoin on {node.on.sql}" if node.on else "InnerJoin of every pair"
        case UnionAll():
            return "UnionAll"
        case Aggregate():
            keys = ", ".join(column.name for column in node.keys) or "nothing"
            calls = ", ".join(
                call.sql + (f" filter {call.condition}" if call.condition else "")
                for call in node.calls
            )
            return f"Aggregate by {keys}" + (f": {calls}" if calls else "")
        case Weigh():
            return f"Weigh by {node.factor.sql}"
        case Recompute():
            keys = ", ".join(column.name for column in node.keys) or "nothing"
            return f"Recompute {node.operator} by {keys}: {' '.join(node.sql.split())}"
    assert_never(node)


def tree(node: Node, indent: int = 0) -> str:
    """Print a plan as an indented tree, one operator per line."""
    lines = ["  " * indent + describe(node)]
    lines += [tree(child, indent + 1) for child in children_of(node)]
    return "\n".join(lines)
