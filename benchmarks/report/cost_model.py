"""The report of ``benchmarks.tpch.cost_model``: every choice beside the other one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.cells import Cell, cells_of
from benchmarks.ratios import failures, geometric_mean
from benchmarks.report.markdown import Cell as Field
from benchmarks.report.markdown import table, times
from benchmarks.report.page import Page
from benchmarks.report.svg import line_chart

_COLUMNS = (
    "query",
    "changed",
    "DIFFERENTIAL ms",
    "FULL ms",
    "predicted DIFFERENTIAL ms",
    "predicted FULL ms",
    "choice",
    "chosen / better",
    "within 20 %",
)


def report_cost_model(results: Mapping[str, Any]) -> Page:
    """Return the table of all cells, and times by share."""
    page = Page(f"The cost model on TPC-H at scale factor {results['scale']:g}", results)
    page.section("Choices")
    page.add(
        "*Chosen / better* is the measured time of the chosen refresh over that of the better one."
    )
    page.add(cost_model_table(results))
    cells = cells_of(results)
    page.headlines += _summary(cells)
    if cells:
        page.section("Times by share")
        title = "Time of a refresh, geometric mean over the queries"
        page.plot("shares", line_chart(title, _lines(cells), "share of rows changed", "ms, log"))
    return page


def cost_model_table(results: Mapping[str, Any]) -> str:
    """Return all cells as Markdown, with the summary below."""
    cells = cells_of(results)
    rows = [_row(cell) for cell in cells]
    lines = [table(_COLUMNS, rows), "", *(f"- {line}" for line in _summary(cells))]
    lines += [f"- {query} failed: {failure}" for query, failure in failures(results).items()]
    return "\n".join(lines)


def _row(cell: Cell) -> list[Field]:
    elsewhere = "" if cell.full_share == cell.share else f" (at {_percent(cell.full_share)})"
    return [
        cell.query,
        _percent(cell.share),
        cell.differential_ms,
        f"{cell.full_ms:,.0f}{elsewhere}",
        cell.predicted_differential_ms,
        cell.predicted_full_ms,
        cell.choice,
        times(cell.ratio),
        "yes" if cell.right else "**no**",
    ]


def _summary(cells: Sequence[Cell]) -> list[str]:
    if not cells:
        return ["no cell was measured"]
    right = sum(cell.right for cell in cells)
    share_right = f"{right} of {len(cells)} cells ({right / len(cells):.1%})"
    lines = [f"choice within 20 % of the better one: {share_right}"]
    for share in sorted({cell.share for cell in cells}):
        found = [cell for cell in cells if cell.share == share]
        worst = max(found, key=lambda cell: cell.ratio)
        lines.append(
            f"{_percent(share)}: {sum(cell.right for cell in found)} of {len(found)} right;"
            f" the better one takes at least {1 / worst.ratio:.2f}x of the chosen one"
            f" ({worst.query})"
        )
    if any(cell.full_share != cell.share for cell in cells):
        lines.append(
            "a full refresh of a small window is the same work at any share: where another share"
            " is named, it was measured there"
        )
    return lines


def _lines(cells: Sequence[Cell]) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {"DIFFERENTIAL": [], "FULL": [], "chosen": []}
    for share in sorted({cell.share for cell in cells}):
        found = [cell for cell in cells if cell.share == share]
        for name, values in (
            ("DIFFERENTIAL", [cell.differential_ms for cell in found]),
            ("FULL", [cell.full_ms for cell in found]),
            ("chosen", [cell.chosen_ms for cell in found]),
        ):
            lines[name].append((share, geometric_mean(values)))
    return lines


def _percent(share: float) -> str:
    return f"{share * 100:g} %"
