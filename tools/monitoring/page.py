"""Write docs/monitoring.md, and list the files of ``monitoring/``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tools.monitoring.dashboards import DASHBOARDS, OVERVIEW
from tools.monitoring.panels import Dashboard, write_json
from tools.monitoring.picture import draw_layout
from tools.monitoring.rules import ALERTS, Alert, write_rules

_INTRODUCTION = Path(__file__).with_name("introduction.md")
_GRAFANA = "monitoring/grafana"
_PICTURE = "images/monitoring-overview.svg"

# Beside docs/, by their paths from there.
FILES: dict[str, Callable[[], str]] = {
    **{f"../{_GRAFANA}/{one.file}.json": partial(write_json, one) for one in DASHBOARDS},
    "../monitoring/prometheus/rules.yml": write_rules,
    _PICTURE: partial(draw_layout, OVERVIEW),
}


def monitoring_page() -> Iterator[str]:
    """Yield the parts of the page."""
    yield _INTRODUCTION.read_text(encoding="utf-8").strip()
    yield "## Dashboards"
    yield (
        f"![The panels of the overview, without data: six numbers about health, seven graphs about"
        f" refreshes, six about the stream tables that need a look]({_PICTURE})"
    )
    yield "The picture is the layout of the overview; a dashed line is the value of an alert."
    for one in DASHBOARDS:
        yield _dashboard(one)
    yield "## Alerts"
    yield (
        "Thresholds stand in `tools/monitoring/thresholds.py`; those of the slot are the defaults"
        " of `slot_lag_warning_threshold_mb` and `slot_lag_critical_threshold_mb`. The stalest"
        " stream table is an alert only if it has a service level (`set_stream_table_sla`), since"
        " only that says how old is too old."
    )
    yield _table(
        ["alert", "severity", "fires when", "for", "what to do"],
        [_alert(one) for one in ALERTS],
    )


def _dashboard(one: Dashboard) -> str:
    link = f"[`{one.file}.json`](../{_GRAFANA}/{one.file}.json)"
    rows = [
        [panel.title, panel.doc.replace("|", "\\|")] for row in one.rows for panel in row.panels
    ]
    title = one.title.removeprefix("pgtrickle: ").capitalize()
    return f"### {title}\n\n{link}. {one.doc}\n\n{_table(['panel', 'meaning'], rows)}"


def _alert(one: Alert) -> list[str]:
    return [
        f"`{one.name}`",
        one.severity,
        f"`{one.expression}`".replace("|", "\\|"),
        one.lasts or "at once",
        one.remedy,
    ]


def _table(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
