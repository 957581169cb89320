"""The blocks of code on a page, and what is said of each in a comment that readers do not see.

``<!-- run -->`` above a block: it is run, after those before it on the page.
``<!-- run: beside -->``: a command that goes on while the following blocks are run.
``<!-- run: WORD -->``: a test of its own runs it, which asks for the block by that word.
``<!-- prints -->``: what the block before it prints; ``…`` stands for what differs from run to run.
``<!-- file: PATH -->``: it is what a file of the repository says.
``<!-- not run: REASON -->``: nobody runs it.
``<!-- prepare: LANGUAGE``, lines, ``-->``: what is run there and not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "integrations").glob("*/*.md"),
        *(ROOT / "deploy").rglob("*.md"),
    )
)
ON_SPARK = ("docs/tutorials/spark-cluster.md",)  # followed by tests/end_to_end/test_tutorials.py
_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<mark>[^>]+?) -->\n+)?^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$"
    r"|^<!-- prepare: (?P<prepared>\w+)\n(?P<hidden>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a page."""

    page: str
    line: int
    language: str
    text: str
    mark: str = ""  # run, prints, not run, ..., or nothing
    detail: str = ""  # what follows the colon

    @property
    def place(self) -> str:
        """Return where it begins."""
        return f"{self.page}:{self.line}"


def read_blocks(page: str) -> list[Block]:
    """Return the blocks of a page, which is named from the root of the repository."""
    return list(_blocks(page, (ROOT / page).read_text(encoding="utf-8")))


def _blocks(page: str, text: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["prepared"]:
            yield Block(page, line, found["prepared"], found["hidden"], "prepare")
            continue
        mark, _, detail = (found["mark"] or "").partition(": ")
        body = found["text"].replace(f"\n{found['indent']}", "\n").removeprefix(found["indent"])
        yield Block(page, line, found["language"], body, mark, detail)


def followed_pages() -> list[str]:
    """Return the pages of which blocks are run in their order, without those that need Spark."""
    return [
        page
        for page in PAGES
        if page not in ON_SPARK
        and any(
            block.mark == "run" and block.detail in {"", "beside"} for block in read_blocks(page)
        )
    ]


def block_of(page: str, word: str) -> str:
    """Return the text of the one block that a test asks for by a word."""
    [found] = [
        block.text for block in read_blocks(page) if block.mark == "run" and block.detail == word
    ]
    return found
