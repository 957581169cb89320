"""The layout of a dashboard as an SVG: which panel is where, without data."""

from __future__ import annotations

from html import escape

from tools.monitoring.panels import Dashboard, Panel, Placed, place

_UNIT_X, _UNIT_Y, _GAP, _TOP = 40, 15, 6, 44
_STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.t{font-size:17px;font-weight:600}"
    ".h{font-weight:600}.d{font-size:10.5px;fill:#57606a}"
    "rect{fill:#fff;stroke:#d0d7de}.alarm{stroke:#cf222e;stroke-dasharray:5 4}"
)


def draw_layout(dashboard: Dashboard) -> str:
    """Return the picture."""
    placed = list(place(dashboard))
    height = _TOP + max(one.y + one.height for one in placed) * _UNIT_Y + _GAP
    width = 24 * _UNIT_X + 2 * _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>The panels of the dashboard {escape(dashboard.title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" style="fill:#f6f8fa;stroke:none"/>',
        f'<text class="t" x="{_GAP * 2}" y="28">{escape(dashboard.title)}</text>',
        *(_draw(one) for one in placed),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _draw(one: Placed) -> str:
    x, y = _GAP + one.x * _UNIT_X, _TOP + one.y * _UNIT_Y
    if not isinstance(one.what, Panel):
        return f'<text class="h" x="{x + _GAP}" y="{y + 12}">{escape(one.what.title)}</text>'
    width, height = one.width * _UNIT_X - _GAP, one.height * _UNIT_Y - _GAP
    lines = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3"/>']
    lines.append(f'<text x="{x + 8}" y="{y + 18}">{escape(one.what.title)}</text>')
    if one.what.alarms is not None and one.what.kind != "stat":
        level = y + height * 0.55
        lines.append(
            f'<line class="alarm" x1="{x + 8}" x2="{x + width - 8}" y1="{level}" y2="{level}"/>'
        )
    if one.what.kind != "stat":
        legends = [series.legend for series in one.what.series if series.legend != "__auto"]
        legend = escape(", ".join(legends))
        lines.append(f'<text class="d" x="{x + 8}" y="{y + height - 8}">{legend}</text>')
    return "\n".join(lines)
