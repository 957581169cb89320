"""The report of ``benchmarks.tpch``: times of all contenders, and how much longer others take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.ratios import OURS, geometric_mean, medians, ratios
from benchmarks.report.markdown import Cell, table, times
from benchmarks.report.page import Page
from benchmarks.report.svg import bar_chart, line_chart
from pgtrickle.settings import SPARK

LABELS = {
    "ours": "stream table",
    "view": "REFRESH MATERIALIZED VIEW",
    "spark": "Spark in full",
    "ours_full": "stream table in full",
    "duckdb": "DuckDB over Parquet",
    "pathway": "Pathway",
}
_SHORT = LABELS | {"view": "view", "spark": "Spark", "ours_full": "in full", "duckdb": "DuckDB"}
_RATIOS = ("view", "spark")  # of these the table tells each query's


def report_comparison(results: Mapping[str, Any]) -> Page:
    """Return a table and a plot of every share, and how the ratios change with it."""
    engine = results.get("engine", SPARK)
    by = "" if engine == SPARK else f", engine = {engine}"
    page = Page(f"TPC-H at scale factor {results['scale']:g}{by}", results)
    for run in results["runs"]:
        words = _share_in_words(results, run)
        page.section(words)
        page.add(_how_measured(run))
        page.add(comparison_table(run))
        page.headlines += [f"{words}: {line}" for line in _summary(ratios(run))]
        found = {LABELS[name]: by_query for name, by_query in ratios(run).items()}
        if found:
            page.plot(
                f"{run['share']:g}",
                bar_chart(
                    f"How many times longer than the stream table, {words}", found, "log scale"
                ),
            )
    lines = _means_by_share(results)
    if any(len(points) > 1 for points in lines.values()):
        page.section("By the share of rows that changed")
        title = "How many times longer than the stream table, geometric mean"
        page.plot("shares", line_chart(title, lines, "share of rows changed", "log scale"))
    return page


def comparison_table(run: Mapping[str, Any]) -> str:
    """Return the times of one run as Markdown, with means below."""
    names = [name for name in LABELS if any(name in one for one in run["queries"].values())]
    told = [name for name in _RATIOS if name in names]
    found = ratios(run)
    rows: list[list[Cell]] = []
    for query, result in run["queries"].items():
        if "failure" in result:
            rows.append([query, result["failure"]])
            continue
        taken = medians(result)
        facts = result.get(OURS, {}).get("facts", {})
        rows.append(
            [
                query,
                *(taken.get(name) for name in names),
                *(times(found.get(name, {}).get(query)) for name in told),
                facts.get("rows_read"),
            ]
        )
    columns = ["query", *(f"{_SHORT[name]} ms" for name in names)]
    columns += [*(f"{_SHORT[name]} / stream table" for name in told), "rows read"]
    return "\n".join([table(columns, rows), "", *(f"- {line}" for line in _summary(found))])


def _summary(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    lines = []
    for name, by_query in found.items():
        least = min(by_query, key=lambda query: by_query[query])
        below = sum(ratio < 1 for ratio in by_query.values())
        mean = times(geometric_mean(by_query.values()))
        lines.append(
            f"{LABELS[name]} / stream table: geometric mean {mean}, least"
            f" {times(by_query[least])} ({least}), {below} of {len(by_query)} below 1"
        )
    return lines


def _how_measured(run: Mapping[str, Any]) -> str:
    rounds = max(
        (len(one[OURS]["ms"]) for one in run["queries"].values() if OURS in one), default=0
    )
    return (
        f"Medians of {rounds} windows for the stream tables, after {run['warm_up_refreshes']}"
        " refreshes of each to warm up."
    )


def _share_in_words(results: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    if results.get("rows"):
        return f"about {results['rows']:,} rows changed"
    return f"{run['share'] * 100:g} % of the rows changed"


def _means_by_share(results: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for run in results["runs"]:
        for name, by_query in ratios(run).items():
            mean = geometric_mean(by_query.values())
            lines.setdefault(LABELS[name], []).append((run["share"], mean))
    return lines
