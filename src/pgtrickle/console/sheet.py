"""A sheet: what one panel shows, as lines of cells; both consoles draw it, each in its way.

A cell never says something by its colour alone: the tone repeats what a word or a sign says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from pgtrickle.model.text.printable import printable_line


class Tone(Enum):
    """How a cell looks."""

    PLAIN = "plain"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    DIM = "dim"
    STRONG = "strong"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text of one line."""

    text: str
    tone: Tone = Tone.PLAIN
    order: float | None = None  # by which lines are sorted; None: by the text


@lru_cache(maxsize=16_384, typed=True)  # the same names again and again, every second
def cell(value: object, tone: Tone = Tone.PLAIN, order: float | None = None) -> Cell:
    r"""Make a cell of any value; nothing in it steers the terminal.

    >>> cell("a\nb").text, cell(None).text
    ('a\\nb', '')
    """
    return Cell("" if value is None else printable_line(str(value)), tone, order)


@dataclass(frozen=True, slots=True)
class Column:
    """A column; where a screen is narrow, those of the highest rank are left out."""

    title: str
    width: int  # at least
    rank: int = 0
    right: bool = False  # numbers are
    grows: bool = False  # takes what is left
    counts: bool = False  # holds an age before a slash, which grows with the clock


@dataclass(frozen=True, slots=True)
class Line:
    """A line of cells, or, with ``spans``, of one cell over the whole width."""

    cells: tuple[Cell, ...]
    key: str = ""  # what an action on the line is about, a stream table or a source
    spans: bool = False

    def matches(self, words: str) -> bool:
        """Whether each of these words is in some cell, whatever the case.

        >>> Line((Cell("public.Revenue"), Cell("late"))).matches("rev LATE")
        True
        """
        text = " ".join(one.text for one in self.cells).casefold()
        return all(word in text for word in words.casefold().split())


@dataclass(frozen=True, slots=True)
class Sheet:
    """The columns and lines of a panel."""

    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    empty: str = "nothing"  # what is said if there are no lines

    def filtered(self, words: str) -> Sheet:
        """Return the lines that have all these words; headings stay."""
        if not words:
            return self
        return replace(self, lines=tuple(one for one in self.lines if one.matches(words)))

    def sorted_by(self, column: int, *, down: bool) -> Sheet:
        """Return the lines in the order of one column; what spans stays where it is."""
        if any(one.spans for one in self.lines):
            return self

        def rank(line: Line) -> tuple[bool, float, str]:
            found = line.cells[column]
            return (found.order is None, found.order or 0.0, found.text)

        return replace(self, lines=tuple(sorted(self.lines, key=rank, reverse=down)))


def heading(text: str) -> Line:
    """Return a line that begins a section."""
    return Line((cell(text, Tone.STRONG),), spans=True)


def words(text: object, tone: Tone = Tone.PLAIN, key: str = "") -> Line:
    """Return a line of text."""
    return Line((cell(text, tone),), key, spans=True)


def prose(text: str, tone: Tone = Tone.PLAIN, indent: str = "  ") -> Iterable[Line]:
    """Yield the lines of a text of several."""
    return (words(indent + line.expandtabs(4), tone) for line in text.strip("\n").splitlines())
