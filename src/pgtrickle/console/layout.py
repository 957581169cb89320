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
    taken = cell_len(text)
    if taken > width:
        return set_cell_size(text, max(width - 1, 0)) + "…" * (width > 0)
    return " " * (width - taken) + text if right else text + " " * (width - taken)


def fitted(sheet: Sheet, width: int) -> Fitted:
    """Choose the columns for a width.

    >>> columns = (Column("a", 10, grows=True), Column("b", 5), Column("c", 5, rank=1))
    >>> fitted(Sheet(columns, ()), 22)
    Fitted(columns=(0, 1, 2), widths=(10, 5, 5))
    >>> fitted(Sheet(columns, ()), 20)
    Fitted(columns=(0, 1), widths=(14, 5))
    """
    shown = list(range(len(sheet.columns)))
    while len(shown) > 1 and _least(sheet, shown) > width:
        worst = max(shown, key=lambda one: (sheet.columns[one].rank, one))
        if sheet.columns[worst].rank == 0:
            break
        shown.remove(worst)
    widths = {one: sheet.columns[one].width for one in shown}
    spare = width - _least(sheet, shown)
    growing = [one for one in shown if sheet.columns[one].grows]
    for one in growing:  # what is missing, too, where even the least does not fit
        widths[one] = max(widths[one] + spare, 8)
    return Fitted(tuple(shown), tuple(widths.values()))


def _least(sheet: Sheet, shown: Sequence[int]) -> int:
    columns: list[Column] = [sheet.columns[one] for one in shown]
    return sum(one.width for one in columns) + _GAP * (len(columns) - 1)
