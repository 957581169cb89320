"""Each operator and its rule, with the law from the docstring of the rule's file."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import assert_never

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Project,
    Recompute,
    Scan,
    SourceKind,
    UnionAll,
    Weigh,
)
from pgtrickle.algebra.printer import describe
from pgtrickle.delta.cut import AggregateStage, RecomputeStage, StatefulStage
from pgtrickle.delta.rules import filter as filter_rule
from pgtrickle.delta.rules import inner_join, project, scan, union_all, weigh
from pgtrickle.service.insight.explanation.model import Rule
from pgtrickle.storage import merge, recompute

RESULT = Rule(
    "result",
    "storage/apply.py",
    "table⁺  =  table⁻ + π(Δ), consolidated; PostgreSQL computes the projection",
)
_WHOLE = Rule("whole query", "service/compile.py", "Q⁺  =  PostgreSQL's answer; Δ  =  Q⁺ − Q⁻")


def rule_of(node: Node) -> Rule:
    """Return the rule of an operator inside a stage."""
    match node:
        case Scan():
            return _WHOLE if node.source.kind is SourceKind.QUERY else _rule("scan", scan)
        case Filter():
            return _rule("filter", filter_rule)
        case Project():
            return _rule("project", project)
        case InnerJoin():
            return _rule("inner_join", inner_join)
        case UnionAll():
            return _rule("union_all", union_all)
        case Weigh():
            return _rule("weigh", weigh)
        case Aggregate():
            return _rule("aggregate", merge)
        case Recompute():
            return _rule("recompute", recompute)
    assert_never(node)


@dataclass(frozen=True, slots=True)
class Stateful:
    """The operator that a stage keeps state for."""

    kind: str
    description: str
    rule: Rule


def stateful(stage: StatefulStage) -> Stateful:
    """Describe the operator that a stage keeps state for."""
    match stage:
        case AggregateStage():
            keys = ", ".join(key.name for key in stage.layout.keys) or "nothing"
            results = ", ".join(
                f"{one.lookup.sql if one.lookup else one.sql} as {one.name}"
                for one in stage.layout.shown
            )
            description = f"Aggregate by {keys}" + (f": {results}" if results else "")
            return Stateful("Aggregate", description, _rule("aggregate", merge))
        case RecomputeStage():
            rule = _rule("recompute", recompute)
            return Stateful("Recompute", describe(stage.operator), rule)
    assert_never(stage)


def _rule(name: str, module: ModuleType) -> Rule:
    file = module.__name__.removeprefix("pgtrickle.").replace(".", "/") + ".py"
    return Rule(name, file, _law(module.__doc__ or ""))


def _law(docstring: str) -> str:
    r"""Return the indented equation of a rule's docstring.

    >>> print(_law("A rule.\n\n    Δ(a)  =  b\n\nWhy."))
    Δ(a)  =  b
    """
    for paragraph in docstring.split("\n\n"):
        if paragraph.startswith("    "):
            return "\n".join(line.strip() for line in paragraph.splitlines())
    return ""
