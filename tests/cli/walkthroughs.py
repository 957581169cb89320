"""Walkthroughs in the documentation: commands, and what they are said to print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the lines that follow it."""

    command: str
    expected: tuple[str, ...]

    def check(self, printed: str) -> None:
        """Compare what was printed; ``…`` stands for what differs from run to run."""
        pattern = "\n".join(".+".join(map(re.escape, line.split("…"))) for line in self.expected)
        assert re.fullmatch(pattern, printed.strip()), (self.command, printed)


def read_steps(text: str) -> list[Step]:
    """Return the steps in the blocks of a console, in order."""
    return [
        step
        for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        for step in _steps(block)
    ]


def _steps(block: str) -> Iterator[Step]:
    for command in block.replace("\\\n", "").removeprefix("$ ").split("\n$ "):
        first, *others = command.strip("\n").split("\n")
        yield Step(first, tuple(others))
