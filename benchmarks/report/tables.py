"""The report of a benchmark that leaves plain tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report.markdown import cells, table
from benchmarks.report.page import Page


def print_tables(results: Mapping[str, Any]) -> None:
    """Print what the page will show."""
    print(f"\n{results['title']}")
    for one in results["tables"]:
        print(f"\n{table(one['columns'], one['rows'])}")
    for note in results.get("notes", ()):
        print(f"\n{note}")


def report_tables(results: Mapping[str, Any]) -> Page:
    """Return the tables of the results under their titles, and what is to be said about them."""
    page = Page(results["title"], results)
    for one in results["tables"]:
        if one.get("title"):
            page.section(one["title"])
        page.add(table(one["columns"], one["rows"]))
    for note in results.get("notes", ()):
        page.add(note)
    first = results["tables"][0]
    page.headlines += [
        ", ".join(
            f"{name}: {text}" for name, text in zip(first["columns"], cells(row), strict=True)
        )
        for row in first["rows"]
    ]
    return page
