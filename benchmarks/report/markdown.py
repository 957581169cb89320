"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Cell = str | float | int | None


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table; the first column is text, the others are figures.

    >>> print(table(["what", "ms"], [["a", 12.34], ["b", 1234.5], ["c", None]]))
    | what | ms |
    |---|---:|
    | a | 12.3 |
    | b | 1,234 |
    | c |  |
    """
    lines = [
        f"| {' | '.join(columns)} |",
        "|---|" + "---:|" * (len(columns) - 1),
        *(f"| {' | '.join(cells(row))} |" for row in rows),
    ]
    return "\n".join(lines)


def cells(row: Sequence[Cell]) -> list[str]:
    """Return the texts of a row."""
    return [_cell(value) for value in row]


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value.replace("|", "\\|")


def times(value: float | None) -> str:
    """Write a ratio.

    >>> [times(one) for one in (0.456, 3.14, 25.0, None)]
    ['0.46x', '3.1x', '25x', '']
    """
    if value is None:
        return ""
    digits = 2 if value < 1.95 else 1 if value < 9.95 else 0
    return f"{value:.{digits}f}x"
