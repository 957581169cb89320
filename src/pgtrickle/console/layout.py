"""Fit the columns of a sheet into a width: leave some out, and give the rest to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from pgtrickle.console.sheet import Cell, Column, Sheet

_GAP = 1


@dataclass(frozen=True, slots=True)
class Fitted:
    """The columns that are shown, by their number in the sheet, and how wide each is."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]

    def title(self, sheet: Sheet) -> str:
        """Return the line of titles."""
        shown = (sheet.columns[one] for one in self.columns)
        return (" " * _GAP).join(
            fit(one.title, width, right=one.right)
            for one, width in zip(shown, self.widths, strict=True)
        )

    def texts(self, sheet: Sheet, cells: Sequence[Cell]) -> list[tuple[str, Cell]]:
        """Return what is written of each cell that is shown, with the gap before the next."""
        found = []
        for place, (number, width) in enumerate(zip(self.columns, self.widths, strict=True)):
            last = place == len(self.columns) - 1
            text = fit(cells[number].text, width, right=sheet.columns[number].right)
            found.append((text if last else text + " " * _GAP, cells[number]))
        return found


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return a text of exactly this width; what is cut off is marked.

    >>> fit("revenue", 9), fit("12", 4, right=True), fit("public.revenue", 9)
    ('revenue  ', '  12', 'public.r…')
    """
    taken = _width(text)
    if taken > width:
        return set_cell_size(text, max(width - 1, 0)) + "…" * (width > 0)
    return " " * (width - taken) + text if right else text + " " * (width - taken)


def fitted(sheet: Sheet, width: int) -> Fitted:
    """Choose the columns for a width, and give each what its longest text needs, if there is room.

    >>> from pgtrickle.console.sheet import Line
    >>> columns = (Column("a", 4, grows=True), Column("b", 3), Column("c", 5, rank=1))
    >>> lines = (Line((Cell("a long one"), Cell("four"), Cell(""))),)
    >>> [fitted(Sheet(columns, lines), width).widths for width in (80, 21, 14, 12, 9)]
    [(10, 4, 5), (10, 4, 5), (4, 3, 5), (8, 3), (5, 3)]
    """
    shown = list(range(len(sheet.columns)))
    while len(shown) > 1 and _least(sheet, shown) > width:
        worst = max(shown, key=lambda one: (sheet.columns[one].rank, one))
        if sheet.columns[worst].rank == 0:
            break
        shown.remove(worst)
    widths = {one: sheet.columns[one].width for one in shown}
    spare = width - _least(sheet, shown)
    # What grows comes first, and gives what is missing where even the least does not fit.
    for one in sorted(shown, key=lambda one: not sheet.columns[one].grows):
        if spare < 0 and not sheet.columns[one].grows:
            break
        wanted = spare if spare < 0 else min(spare, _needed(sheet, one) - widths[one])
        more = max(wanted, 1 - widths[one]) if spare < 0 else max(wanted, 0)
        widths[one] += more
        spare -= more
    return Fitted(tuple(shown), tuple(widths.values()))


def _needed(sheet: Sheet, column: int) -> int:
    texts = [one.cells[column].text for one in sheet.lines if not one.spans]
    texts.append(sheet.columns[column].title)
    # Thousands of texts a second: hardly any has a character that is wider than others.
    return max(map(len if "".join(texts).isascii() else _width, texts))


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _least(sheet: Sheet, shown: Sequence[int]) -> int:
    columns: list[Column] = [sheet.columns[one] for one in shown]
    return sum(one.width for one in columns) + _GAP * (len(columns) - 1)
