"""A rehearsal as a page of HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pgtrickle.model.insight.rehearsal import Rehearsal, StageFigures, StatementFigures
from pgtrickle.model.text.sizes import in_bytes
from pgtrickle.service.insight import html_page as html
from pgtrickle.service.insight.rehearsed import words


def rehearsal_html(rehearsal: Rehearsal) -> str:
    """Return the page: the decision, a table of the stages, then each in detail."""
    return html.page(f"Rehearsal of {rehearsal.stream_table}", *_parts(rehearsal))


def _parts(rehearsal: Rehearsal) -> Iterator[str]:
    yield html.paragraph(f"{rehearsal.action}: {rehearsal.reason}")
    if not rehearsal.ran:
        yield html.paragraph("Not rehearsed: this refresh begins with commits.")
        return
    yield html.paragraph(
        f"{rehearsal.taken_at:%Y-%m-%d %H:%M:%S %Z}: {rehearsal.total_ms:.1f} ms;"
        f" {words.rows(rehearsal.rows_inserted)} inserted,"
        f" {words.rows(rehearsal.rows_deleted)} deleted; everything was rolled back."
    )
    yield html.table(
        ("stage", "engine", "rows in", "rows out", "bytes out", "ms"),
        [
            (
                one.name,
                one.engine,
                f"{one.rows_in:,}",
                f"{one.rows_out:,}",
                in_bytes(one.bytes_out),
                f"{one.ms:.1f}",
            )
            for one in rehearsal.stages
        ],
    )
    for stage in rehearsal.stages:
        yield html.heading(f"stage {stage.name}")
        yield from _stage(stage)
    if rehearsal.apply:
        yield html.heading("apply")
        yield from map(_statement, rehearsal.apply)


def _stage(stage: StageFigures) -> Iterator[str]:
    yield html.paragraph(words.steps(stage.timings_ms))
    if stage.pruned:
        yield html.paragraph(f"Pruned, without changes: {', '.join(stage.pruned)}")
    yield html.table(
        ("read", "source", "bounded by", "rows", "bytes"),
        [(one.kind, one.source, one.bounded_by, one.rows, one.bytes) for one in stage.reads],
    )
    if stage.spark:
        yield "".join(map(html.paragraph, map(words.spark, stage.spark)))
    yield from map(_statement, stage.statements)


def _statement(one: StatementFigures) -> str:
    told = f"{one.step}: {words.rows(one.rows)}, {one.ms:.2f} ms, pages {words.buffers(one)}"
    plan = json.dumps(one.plan, indent=2, ensure_ascii=False)
    lines = [html.paragraph(words.table(table)) for table in one.tables]
    return html.folded(told, html.preformatted(one.sql), *lines, html.preformatted(plan))
