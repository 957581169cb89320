"""An explanation as text."""

from __future__ import annotations

from collections.abc import Iterator

from pgtrickle.service.insight.explanation.model import Explanation, Operator, ReadNote, Rule


def explanation_text(explanation: Explanation) -> list[str]:
    """Return the lines: the operators, then the stages, then the laws and the missing indexes."""
    lines = ["operators:", *_operator(explanation.tree, "  ")]
    for stage in explanation.stages:
        lines += ["", f"stage {stage.name}:", f"  delta: {stage.delta}"]
        for read in stage.reads:
            lines += [f"  read {read.relation} ({read.kind}) from {read.source}", f"    {read.sql}"]
        lines += [
            f"  engine {stage.engine}{f' ({stage.why_engine})' if stage.why_engine else ''}:",
            *(f"    {line}" for line in stage.engine_sql.splitlines()),
        ]
    lines += ["", "rules:"]
    for rule in _rules(explanation.tree):
        lines.append(f"  {rule.name} ({rule.file})")
        lines += [f"    {line}" for line in rule.law.splitlines()]
    if explanation.missing_indexes:
        lines += ["", "missing indexes (each bounded read without one scans its table):"]
        lines += [f"  {statement}" for statement in explanation.missing_indexes]
    return lines


def _operator(operator: Operator, indent: str) -> Iterator[str]:
    yield f"{indent}{operator.description}"
    inner = f"{indent}    "
    yield f"{inner}rule: {operator.rule.name}, in stage {operator.stage}"
    for table in operator.state:
        yield f"{inner}state: {table.name}: {table.holds}"
    for read in operator.reads:
        yield from _read(read, inner)
    for child in operator.inputs:
        yield from _operator(child, f"{indent}  ")


def _read(read: ReadNote, indent: str) -> Iterator[str]:
    yield f"{indent}read: {read.relation} ({read.kind}), bounded by {read.bounded_by}"
    if read.why_unbounded is not None:
        yield f"{indent}  unbounded: {read.why_unbounded}"
    for statement in read.missing_indexes:
        yield f"{indent}  no index: {statement}"


def _rules(operator: Operator) -> list[Rule]:
    found: dict[str, Rule] = {operator.rule.name: operator.rule}
    for child in operator.inputs:
        found |= {rule.name: rule for rule in _rules(child)}
    return list(found.values())
