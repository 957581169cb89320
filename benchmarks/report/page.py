"""A page of Markdown with its plots: what was measured, on what, and by which command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_NOTE = "<!-- Written by `python -m benchmarks.report` from {name}.json: do not edit. -->"


class Page:
    """Collects sections, tables and plots, and writes them."""

    def __init__(self, title: str, results: Mapping[str, Any]) -> None:
        self.title = title
        self._results = results
        self._parts: list[str] = []
        self._plots: dict[str, str] = {}
        self.headlines: list[str] = []  # what the list of all pages tells

    def section(self, title: str) -> None:
        """Begin a section."""
        self._parts.append(f"## {title[0].upper()}{title[1:]}")

    def add(self, text: str) -> None:
        """Add a paragraph, a list or a table."""
        self._parts.append(text)

    def plot(self, name: str, svg: str) -> None:
        """Show a plot here."""
        self._plots[name] = svg
        self._parts.append(f"![{self.title}]({{stem}}-{name}.svg)")

    def files(self, stem: str) -> dict[str, str]:
        """Return the files of the page by name."""
        parts = [
            _NOTE.format(name=stem),
            f"# {self.title}",
            _measured_on(self._results),
            *(part.replace("{stem}", stem) for part in self._parts),
        ]
        files = {f"{stem}.md": "\n\n".join(parts) + "\n"}
        return files | {f"{stem}-{name}.svg": svg for name, svg in self._plots.items()}

    def write(self, directory: Path, stem: str) -> None:
        """Write the files of the page into a directory."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in self.files(stem).items():
            (directory / name).write_text(text)


def _measured_on(results: Mapping[str, Any]) -> str:
    """Return machine, versions, seed and command."""
    machine = dict(results["machine"])
    cores, memory = machine.pop("cores"), machine.pop("memory_gib")
    lines = [f"- machine: {cores} cores, {memory} GiB of memory, {machine.pop('architecture')}"]
    lines.append("- versions: " + ", ".join(f"{name} {value}" for name, value in machine.items()))
    if "first_window" in results:
        lines.append(
            "- data: TPC-H's own, without a random seed; windows of changes numbered from"
            f" {results['first_window']}, drawn by a hash of key and number"
        )
    lines.append(f"- command: `{results['command']}`")
    return "\n".join(lines)
