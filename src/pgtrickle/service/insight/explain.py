"""``explain_stream_table``: how a stream table is maintained, and what its next refresh takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pgtrickle.algebra.printer import show
from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.circles import list_members
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import SettingError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.compile import Compiled, compile_query, compile_stream_table
from pgtrickle.service.insight.explanation.build import explain
from pgtrickle.service.insight.explanation.document import explanation_document
from pgtrickle.service.insight.explanation.dot import explanation_dot
from pgtrickle.service.insight.explanation.html import explanation_html
from pgtrickle.service.insight.explanation.mermaid import explanation_mermaid
from pgtrickle.service.insight.explanation.model import Explanation
from pgtrickle.service.insight.explanation.text import explanation_text
from pgtrickle.service.insight.rehearsed.keep import keep_figures
from pgtrickle.service.insight.rehearsed.show import show_rehearsal
from pgtrickle.service.refreshing.rehearsal.rehearse import rehearse_refresh
from pgtrickle.service.runtime import Runtime

_Writer = Callable[[StreamTable, Compiled, Explanation, Sequence[str]], str]


def explain_stream_table(
    runtime: Runtime, name: QualifiedName, output: str, *, with_analyze: bool = False
) -> str:
    """Explain the refresh in which every source has changed, in one of the forms.

    ``with_analyze`` runs the reads and stages of the next refresh instead, measures them, and
    rolls them back; the figures are kept as a profile.
    """
    writers: dict[str, _Writer] = {
        "text": _as_text,
        "json": _as_json,
        "dot": _as_dot,
        "mermaid": _as_mermaid,
        "html": _as_html,
    }
    if output not in writers:
        *others, last = writers
        raise SettingError(
            f'the format "{output}" does not exist', hint=f"Choose {', '.join(others)} or {last}."
        )
    if with_analyze:
        rehearsal = rehearse_refresh(runtime, name)
        keep_figures(runtime, name, rehearsal)
        return show_rehearsal(rehearsal, output)
    with runtime.connection() as connection:
        table = get_stream_table(connection, name)
        compiled = compile_stream_table(connection, table, Bounds.of(runtime.settings))
        mode = runtime.engine_mode(table.engine)
        explanation = explain(connection, compiled, runtime.dialect_of(mode), table.id)
        circle = [str(one) for one in list_members(connection, name)]
    return writers[output](table, compiled, explanation, circle)


def explain_delta(runtime: Runtime, name: QualifiedName) -> str:
    """Return the statements with which the engine computes a change, stage by stage."""
    document = json.loads(explain_stream_table(runtime, name, "json"))
    return "\n\n".join(
        f"-- stage {stage['name']}\n{stage['engine_sql']}" for stage in document["stages"]
    )


def explain_query_rewrite(
    runtime: Runtime, query: str, search_path: str | None = None
) -> dict[str, Any]:
    """Return the result of each pass over a query, in order; the last may be a refusal."""
    with runtime.connection() as connection:
        bounds = Bounds.of(runtime.settings)
        compiled = compile_query(connection, query, runtime.users_path(search_path), bounds)
    bound = compiled.binding.query.sql
    notes = list(compiled.binding.pinned)
    passes = [{"pass": "bind", "changed": bound != query, "sql_after": bound, "pinned": notes}]
    if compiled.algebra is None:
        refused = str(compiled.refusal)
        refusal = {"pass": "lower", "changed": False, "sql_after": None, "refused": refused}
        return {"passes": [*passes, refusal]}
    stages = "\n".join(f"{one.name}: {show(one.body)}" for one in compiled.staged.stages)
    lowered = {"pass": "lower", "changed": True, "sql_after": show(compiled.algebra.node)}
    cut = {"pass": "cut", "changed": len(compiled.staged.stages) > 1, "sql_after": stages}
    return {"passes": [*passes, lowered, cut]}


def _as_text(
    table: StreamTable, compiled: Compiled, explanation: Explanation, circle: Sequence[str]
) -> str:
    return "\n".join([*_facts(table, compiled, circle), "", *explanation_text(explanation)])


def _facts(table: StreamTable, compiled: Compiled, circle: Sequence[str]) -> list[str]:
    lines = [
        f"stream table {table.name}",
        f"mode: {table.refresh_mode.value}, in effect {table.effective_refresh_mode.value}",
    ]
    if circle:
        lines += [
            f"in a circle of {', '.join(circle)}: PostgreSQL computes their fixpoint, and nothing",
            "of the plan below is used as long as that is so",
        ]
    lines += [f"pinned: {note}" for note in compiled.binding.pinned]
    if compiled.refusal is not None:
        lines += [f"not differential: {compiled.refusal}", compiled.refusal.detail]
    return lines


def _as_json(
    table: StreamTable, compiled: Compiled, explanation: Explanation, circle: Sequence[str]
) -> str:
    facts = {
        "stream_table": str(table.name),
        "refresh_mode": table.refresh_mode.value,
        "effective_refresh_mode": table.effective_refresh_mode.value,
        "refusal": str(compiled.refusal) if compiled.refusal else None,
        "pinned": list(compiled.binding.pinned),
        "circle": list(circle),
    }
    return json.dumps(facts | explanation_document(explanation), indent=2, ensure_ascii=False)


def _as_dot(
    table: StreamTable, _: Compiled, explanation: Explanation, _circle: Sequence[str]
) -> str:
    return explanation_dot(explanation, str(table.name))


def _as_mermaid(
    _: StreamTable, _compiled: Compiled, explanation: Explanation, _circle: Sequence[str]
) -> str:
    return explanation_mermaid(explanation)


def _as_html(
    table: StreamTable, compiled: Compiled, explanation: Explanation, circle: Sequence[str]
) -> str:
    return explanation_html(explanation, str(table.name), _facts(table, compiled, circle))
