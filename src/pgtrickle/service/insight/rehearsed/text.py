"""A rehearsal as text."""

from __future__ import annotations

from collections.abc import Iterator

from pgtrickle.model.insight.rehearsal import Rehearsal, StageFigures, StatementFigures
from pgtrickle.service.insight.rehearsed import words

_LONGEST_STATEMENT = 400  # characters; JSON has all of it


def rehearsal_text(rehearsal: Rehearsal) -> list[str]:
    """Return the lines: the decision, then each stage, then the apply."""
    return [*_head(rehearsal), *_stages(rehearsal), *_apply(rehearsal)]


def _head(rehearsal: Rehearsal) -> Iterator[str]:
    yield f"rehearsal of {rehearsal.stream_table}, {rehearsal.taken_at:%Y-%m-%d %H:%M:%S %Z}"
    yield f"  action: {rehearsal.action}: {rehearsal.reason}"
    if not rehearsal.ran:
        yield "  not rehearsed: this refresh begins with commits, which nothing can roll back"
        return
    for source, number in rehearsal.changed_rows.items():
        yield f"  changed: {source}: {words.rows(number)}"
    predicted = rehearsal.predicted_ms
    told = "" if predicted is None else f", predicted {predicted:.1f} ms"
    yield f"  took {rehearsal.total_ms:.1f} ms{told}; everything was rolled back"
    yield f"  steps: {words.steps(rehearsal.timings_ms)}"


def _stages(rehearsal: Rehearsal) -> Iterator[str]:
    for stage in rehearsal.stages:
        yield ""
        yield f"stage {stage.name}, computed by {stage.engine or 'nobody'}:"
        yield f"  {words.flow(stage)}"
        yield from _details(stage)


def _details(stage: StageFigures) -> Iterator[str]:
    if stage.timings_ms:
        yield f"  steps: {words.steps(stage.timings_ms)}"
    for one in stage.reads:
        yield f"  {words.read(one)}"
    for source in stage.pruned:
        yield f"  pruned: {source} has no changes"
    for statement in stage.statements:
        yield from _statement(statement, "  ")
    for work in stage.spark:
        yield f"  spark {words.spark(work)}"


def _apply(rehearsal: Rehearsal) -> Iterator[str]:
    if not rehearsal.ran or not rehearsal.stages:
        return
    yield ""
    yield (
        f"apply: {words.rows(rehearsal.rows_inserted)} inserted,"
        f" {words.rows(rehearsal.rows_deleted)} deleted"
    )
    for statement in rehearsal.apply:
        yield from _statement(statement, "  ")


def _statement(one: StatementFigures, indent: str) -> Iterator[str]:
    yield (
        f"{indent}{one.step}: {words.rows(one.rows)} in {one.ms:.2f} ms; pages {words.buffers(one)}"
    )
    yield f"{indent}  {' '.join(one.sql.split())[:_LONGEST_STATEMENT]}"
    for table in one.tables:
        yield f"{indent}    {words.table(table)}"
