"""``explain_stream_table``: how a stream table is maintained, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pgtrickle.catalog.circles import list_members
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import SettingError
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.compile import Compiled, compile_stream_table
from pgtrickle.service.explanation.build import explain
from pgtrickle.service.explanation.document import explanation_document
from pgtrickle.service.explanation.dot import explanation_dot
from pgtrickle.service.explanation.model import Explanation
from pgtrickle.service.explanation.text import explanation_text
from pgtrickle.service.runtime import Runtime

_Writer = Callable[[StreamTable, Compiled, Explanation, Sequence[str]], str]


def explain_stream_table(runtime: Runtime, name: QualifiedName, output: str) -> str:
    """Explain the refresh in which every source has changed, as text, JSON or DOT."""
    writers: dict[str, _Writer] = {"text": _as_text, "json": _as_json, "dot": _as_dot}
    if output not in writers:
        raise SettingError(
            f'the format "{output}" does not exist', hint="Choose text, json or dot."
        )
    with runtime.connection() as connection:
        table = get_stream_table(connection, name)
        compiled = compile_stream_table(
            connection, table, runtime.settings.planning_timeout_seconds
        )
        explanation = explain(connection, compiled, runtime.engine.dialect, table.id)
        circle = [str(one) for one in list_members(connection, name)]
    return writers[output](table, compiled, explanation, circle)


def _as_text(
    table: StreamTable, compiled: Compiled, explanation: Explanation, circle: Sequence[str]
) -> str:
    lines = [
        f"stream table {table.name}",
        f"mode: {table.refresh_mode.value}, in effect {table.effective_refresh_mode.value}",
    ]
    if circle:
        lines += [
            f"in a circle of {', '.join(circle)}: PostgreSQL computes their fixpoint, and nothing",
            "of the plan below is used as long as that is so",
        ]
    if compiled.refusal is not None:
        lines += [f"not differential: {compiled.refusal}", compiled.refusal.detail]
    return "\n".join([*lines, "", *explanation_text(explanation)])


def _as_json(
    table: StreamTable, compiled: Compiled, explanation: Explanation, circle: Sequence[str]
) -> str:
    facts = {
        "stream_table": str(table.name),
        "refresh_mode": table.refresh_mode.value,
        "effective_refresh_mode": table.effective_refresh_mode.value,
        "refusal": str(compiled.refusal) if compiled.refusal else None,
        "circle": list(circle),
    }
    return json.dumps(facts | explanation_document(explanation), indent=2, ensure_ascii=False)


def _as_dot(
    table: StreamTable, _: Compiled, explanation: Explanation, _circle: Sequence[str]
) -> str:
    return explanation_dot(explanation, str(table.name))
