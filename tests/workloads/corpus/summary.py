"""What a run of the corpus prints: a row a style, the findings, and the figures of the whole."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping

from tests.workloads.corpus.findings import find
from tests.workloads.outcome import Outcome

_HEAD = (
    "| style | queries | differential | equal | equal as text | compile p50 ms | refresh p50 ms |\n"
    "|---|---:|---:|---:|---:|---:|---:|"
)


def summarize(styles: Mapping[str, Collection[str]], outcomes: Mapping[str, Outcome]) -> str:
    """Write the outcomes of the corpus, by style and as a whole."""
    return "\n".join(
        [
            _HEAD,
            *_rows(styles, outcomes),
            "",
            *_findings(outcomes.values()),
            "",
            _figures(outcomes.values()),
        ]
    )


def _rows(styles: Mapping[str, Collection[str]], outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    for style, names in styles.items():
        played = [outcomes[name] for name in names if name in outcomes]
        if played:
            cells = (style, len(played), *_counts(played), _median(_compiles(played)))
            refreshes = [ms for one in played for ms in one.refresh_ms]
            yield f"| {' | '.join(map(str, cells))} | {_median(refreshes)} |"


def _findings(outcomes: Collection[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        found = find(outcome)
        if found is not None:
            yield f"{outcome.query}: {found.kind.value}: {found.reason}"


def _figures(outcomes: Collection[Outcome]) -> str:
    differential, equal, as_text = _counts(outcomes)
    refused = sum(one.refusal is not None for one in outcomes)
    elapsed = _compiles(outcomes)
    own = [one.compiled.own for one in outcomes if one.compiled is not None]
    slowest = max(outcomes, key=lambda one: one.compiled.elapsed if one.compiled else 0)
    return (
        f"{len(outcomes)} queries: {differential} differential, {equal} equal after every cycle,"
        f" {as_text} equal as text, {refused} refused\n"
        f"compiled in {_median(elapsed)} ms (median), {max(elapsed, default=0):.0f} ms at most"
        f" ({slowest.query});"
        f" own work {_median(own)} ms (median), {max(own, default=0):.0f} ms at most"
    )


def _counts(outcomes: Collection[Outcome]) -> tuple[int, int, int]:
    """Count those that were followed, that were equal, and that were equal as text."""
    equal = [one for one in outcomes if one.failure is None]
    return (
        sum(one.differential for one in equal),
        len(equal),
        sum(one.text_difference is None for one in equal),
    )


def _compiles(outcomes: Collection[Outcome]) -> list[float]:
    return [one.compiled.elapsed for one in outcomes if one.compiled is not None]


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.1f}" if values else ""
