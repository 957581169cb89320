"""Charts as SVG, by hand: two kinds are all we draw, and the same values give the same bytes.

The ground is transparent and the colours follow the reader's scheme, light or dark.  Axes are
logarithmic: ratios and times span orders of magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 900, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 64, 52
_COLOURS = ("#2463a8", "#c2571a", "#237a61", "#8652a8", "#8a6d00")
_COLOURS_DARK = ("#77aee8", "#f2995f", "#5fc9a8", "#c79be2", "#d6bd55")
_TICKS = (1, 2, 5)

Series = Mapping[str, Mapping[str, float]]
Lines = Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis between two values, laid over a range of pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values within the axis; only powers of ten where there would be too many."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = _TICKS if len(powers) <= 4 else (1,)
        found = [step * 10.0**power for power in powers for step in steps]
        return [one for one in found if self.low * 0.999 <= one <= self.high * 1.001]


def bar_chart(title: str, series: Series, unit: str, goal: float | None = None) -> str:
    """Draw a group of bars for each key, from 1 up or down: what is below 1 hangs.

    ``goal`` is a line across.
    """
    keys = list(dict.fromkeys(key for values in series.values() for key in values))
    values = [one for by_key in series.values() for one in by_key.values()]
    axis = _vertical([*values, 1.0, *([goal] if goal else [])])
    slot = (_WIDTH - _LEFT - _RIGHT) / max(len(keys), 1)
    width = slot * 0.8 / max(len(series), 1)
    parts = [*_frame(title, series, unit, axis)]
    for number, by_key in enumerate(series.values()):
        for place, key in enumerate(keys):
            if key in by_key:
                x = _LEFT + slot * (place + 0.1) + width * number
                top, bottom = sorted((axis.at(by_key[key]), axis.at(1.0)))
                parts.append(
                    f'<rect class="s{number}" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}"'
                    f' height="{max(bottom - top, 0.5):.1f}">'
                    f"<title>{escape(key)}: {format_value(by_key[key])}</title></rect>"
                )
    for place, key in enumerate(keys):
        parts.append(_text(_LEFT + slot * (place + 0.5), _HEIGHT - _BOTTOM + 18, key, "middle"))
    parts.append(_rule(axis.at(1.0), "axis"))
    if goal:
        parts.append(_rule(axis.at(goal), "goal"))
    return _document(title, parts)


def line_chart(title: str, lines: Lines, x_label: str, unit: str) -> str:
    """Draw a line with points for each series."""
    points = [one for found in lines.values() for one in found]
    axis = _vertical([y for _, y in points])
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    across = _Axis(low, high if high > low else low * 10, _LEFT + 20, _WIDTH - _RIGHT - 20)
    parts = [*_frame(title, lines, unit, axis)]
    for number, found in enumerate(lines.values()):
        placed = [(across.at(x), axis.at(y)) for x, y in found]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline class="l{number}" points="{path}"/>')
        for (x, y), (_, value) in zip(placed, found, strict=True):
            parts.append(
                f'<circle class="s{number}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
                f"<title>{format_value(value)}</title></circle>"
            )
    bottom = _HEIGHT - _BOTTOM
    parts.extend(
        _text(across.at(tick), bottom + 18, format_value(tick), "middle")
        for tick in sorted({x for x, _ in points})
    )
    parts.append(_text((_LEFT + _WIDTH) / 2, bottom + 40, x_label, "middle"))
    parts.append(_rule(bottom, "axis"))
    return _document(title, parts)


def format_value(value: float) -> str:
    """Write a value with as many digits as it deserves.

    >>> [format_value(one) for one in (0.0001, 0.25, 3.14159, 20.0, 12345.6)]
    ['0.0001', '0.25', '3.14', '20', '12,346']
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _vertical(values: Iterable[float]) -> _Axis:
    """Return an axis upwards with a little room beyond the values."""
    found = list(values)
    return _Axis(min(found) / 1.15, max(found) * 1.15, _HEIGHT - _BOTTOM, _TOP)


def _frame(title: str, names: Iterable[str], unit: str, axis: _Axis) -> Iterable[str]:
    """Yield title, legend and the grid."""
    yield _text(_LEFT, 20, title, "start", "title")
    x = float(_LEFT)
    for number, name in enumerate(names):
        yield f'<rect class="s{number}" x="{x:.1f}" y="35" width="11" height="11"/>'
        yield _text(x + 16, 45, name, "start")
        x += 34 + 7.0 * len(name)
    yield _text(_WIDTH - _RIGHT, 45, unit, "end")
    for tick in axis.ticks():
        yield _rule(axis.at(tick), "grid")
        yield _text(_LEFT - 8, axis.at(tick) + 4, format_value(tick), "end")


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'


def _rule(y: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _document(title: str, parts: Iterable[str]) -> str:
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(title)}">'
    )
    return "\n".join((opening, f"<style>\n{_style()}\n</style>", *parts, "</svg>\n"))


def _style() -> str:
    def scheme(ink: str, faint: str, colours: Sequence[str]) -> str:
        own = (
            f".s{number}{{fill:{colour}}} .l{number}{{stroke:{colour}}}"
            for number, colour in enumerate(colours)
        )
        return (
            f"text{{fill:{ink}}} .axis{{stroke:{ink}}} .grid{{stroke:{faint}}}"
            f" .goal{{stroke:{ink}}} {' '.join(own)}"
        )

    return (
        "text{font:12px system-ui,sans-serif} .title{font-size:14px;font-weight:600}\n"
        "polyline{fill:none;stroke-width:2} .grid{stroke-width:.5} .goal{stroke-dasharray:5 4}\n"
        f"{scheme('#1f2328', '#d0d7de', _COLOURS)}\n"
        f"@media (prefers-color-scheme:dark){{{scheme('#e6edf3', '#3d444d', _COLOURS_DARK)}}}"
    )
