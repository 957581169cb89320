"""Write the result of ``make test-long`` into docs/quality/long-tests.md.

``make test-long`` leaves a report in the JUnit format; ``make record-long`` calls this.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "quality" / "long-tests.md"
BEGIN, END = "<!-- result -->", "<!-- end of result -->"


@dataclass(frozen=True, slots=True)
class Count:
    """The tests of one folder, and how they ended."""

    folder: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0


def count_folders(report: str) -> list[Count]:
    """Count the tests of a report by folder."""
    found: dict[str, list[ET.Element]] = {}
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        found.setdefault("/".join(case.get("classname", "").split(".")[:2]), []).append(case)
    return [_count(folder, cases) for folder, cases in sorted(found.items())]


def _count(folder: str, cases: list[ET.Element]) -> Count:
    failed = sum(_has(one, "failure", "error") for one in cases)
    skipped = sum(_has(one, "skipped") for one in cases)
    seconds = sum(float(one.get("time", 0)) for one in cases)
    return Count(folder, len(cases) - failed - skipped, failed, skipped, seconds)


def _has(case: ET.Element, *tags: str) -> bool:
    return any(case.find(tag) is not None for tag in tags)


def result(counts: Iterable[Count], began: str, commit: str) -> str:
    """Return the part of the page that a run replaces."""
    counts = list(counts)
    everything = Count(
        "all",
        sum(one.passed for one in counts),
        sum(one.failed for one in counts),
        sum(one.skipped for one in counts),
        sum(one.seconds for one in counts),
    )
    rows = [
        f"| `{one.folder}` | {one.passed:,} | {one.failed:,} | {one.skipped:,} |"
        f" {one.seconds / 60:,.1f} |"
        for one in [*counts, everything]
    ]
    head = (
        f"Began {began}, at commit `{commit}`, on {os.cpu_count()} cores, Python"
        f" {platform.python_version()}. The minutes add up the tests; several run at a time."
    )
    table = ["| folder | passed | failed | skipped | minutes |", "|---|---|---|---|---|", *rows]
    return "\n".join([BEGIN, head, "", *table, END])


def main(report: Path) -> None:
    """Replace the result on the page by that of a report."""
    text = report.read_text(encoding="utf-8")
    suite = next(ET.fromstring(text).iter("testsuite"))  # noqa: S314 - pytest wrote it
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    shown = result(count_folders(text), suite.get("timestamp", "")[:16].replace("T", " "), commit)
    PAGE.write_text(before + shown + after, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
