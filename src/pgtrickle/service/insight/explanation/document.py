"""An explanation as JSON: scripts rely on its keys."""

from __future__ import annotations

from dataclasses import asdict

from pgtrickle.service.insight.explanation.model import Explanation, Operator, StateTable

Document = dict[str, object]


def explanation_document(explanation: Explanation) -> Document:
    """Describe the operators, the stages and the missing indexes."""
    return {
        "operators": _operator(explanation.tree),
        "stages": [
            {
                "name": stage.name,
                "delta": stage.delta,
                "state": _state(stage.state),
                "reads": [asdict(read) for read in stage.reads],
                "engine": stage.engine,
                "why_engine": stage.why_engine,
                "engine_sql": stage.engine_sql,
            }
            for stage in explanation.stages
        ],
        "missing_indexes": list(explanation.missing_indexes),
    }


def _operator(operator: Operator) -> Document:
    return {
        "operator": operator.kind,
        "description": operator.description,
        "stage": operator.stage,
        "rule": asdict(operator.rule),
        "state": _state(operator.state),
        "reads": [asdict(read) for read in operator.reads],
        "inputs": [_operator(child) for child in operator.inputs],
    }


def _state(tables: tuple[StateTable, ...]) -> list[Document]:
    return [asdict(table) for table in tables]
