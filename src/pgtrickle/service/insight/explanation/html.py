"""An explanation as a page of HTML."""

from __future__ import annotations

from collections.abc import Iterator

from pgtrickle.service.insight import html_page as html
from pgtrickle.service.insight.explanation.model import Explanation
from pgtrickle.service.insight.explanation.text import explanation_text


def explanation_html(explanation: Explanation, title: str, facts: list[str]) -> str:
    """Return the page: facts, stages with their reads, and the whole text."""
    return html.page(title, *_parts(explanation, facts))


def _parts(explanation: Explanation, facts: list[str]) -> Iterator[str]:
    yield from map(html.paragraph, facts)
    for stage in explanation.stages:
        yield html.heading(f"stage {stage.name}, {stage.engine}")
        yield html.paragraph(stage.delta)
        yield html.table(
            ("read", "kind", "source", "bounded by", "index that is missing"),
            [
                (
                    read.relation,
                    read.kind,
                    read.source,
                    read.why_unbounded or read.bounded_by,
                    " ".join(read.missing_indexes),
                )
                for read in stage.reads
            ],
        )
        yield html.folded("SQL", html.preformatted(stage.engine_sql))
    yield html.folded("everything", html.preformatted("\n".join(explanation_text(explanation))))
