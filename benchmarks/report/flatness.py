"""The report of ``benchmarks.tpch.flatness``: growth of every query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report.markdown import table, times
from benchmarks.report.page import Page
from benchmarks.report.svg import bar_chart

GOAL = 1.5


def report_flatness(results: Mapping[str, Any]) -> Page:
    """Return the table and a plot of the growth."""
    small, large = results["scales"]
    grown = f"{large / small:g}"
    title = f"About {results['rows']:,} changed rows, tables grown {grown} times"
    page = Page(title, results)
    page.section("Growth")
    page.add(flatness_table(results))
    page.headlines.append(_summary(results))
    growth = {"time grows by": growth_of(results)}
    page.plot("growth", bar_chart(f"Time of a refresh: {title}", growth, "log scale", goal=GOAL))
    return page


def flatness_table(results: Mapping[str, Any]) -> str:
    """Return times and growth as Markdown, with the count below."""
    growth = growth_of(results)
    small, large = results["scales"]
    columns = ["query", f"scale factor {small:g}, ms", f"scale factor {large:g}, ms", "growth"]
    rows = [
        [query, before, after, times(growth[query])]
        for query, (before, after) in results["queries"].items()
    ]
    return f"{table(columns, rows)}\n\n- {_summary(results)}"


def _summary(results: Mapping[str, Any]) -> str:
    growth = growth_of(results)
    flat = sum(one <= GOAL for one in growth.values())
    return f"at most {GOAL}x: {flat} of {len(growth)} queries"


def growth_of(results: Mapping[str, Any]) -> dict[str, float]:
    """Return by how much each query's time grows."""
    return {query: after / before for query, (before, after) in results["queries"].items()}
