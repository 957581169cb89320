"""What has just happened: alerts and refreshes as they are heard, and the log."""

from __future__ import annotations

from pgtrickle.console.figures import day_and_clock
from pgtrickle.console.sheet import Column, Line, Sheet, Tone, cell, heading, words
from pgtrickle.console.view import View

_ALERTS = (
    Column("heard", 8),
    Column("what", 22),
    Column("stream table", 24),
    Column("facts", 24, grows=True),
)


def draw_alerts(view: View) -> Sheet:
    """Draw the alerts and refreshes that were heard since the console began, the newest first."""
    lines = [] if not view.deaf else [words(view.deaf, Tone.WARNING)]
    for one in reversed(view.notices):
        told = one.payload
        what = str(told.get("event") or told.get("action") or one.channel)
        facts = ", ".join(
            f"{key.removesuffix('_count')} {value}"
            for key, value in told.items()
            if key not in {"event", "action", "name"}
        )
        alert = "event" in told
        cells = (
            cell(f"{one.heard_at.astimezone(view.picture.moment.taken_at.tzinfo):%H:%M:%S}"),
            cell(f"▲ {what}" if alert else f"  {what}", Tone.WARNING if alert else Tone.PLAIN),
            cell(one.stream_table),
            cell(facts),
        )
        lines.append(Line(cells, one.stream_table or ""))
    return Sheet(_ALERTS, tuple(lines), "nothing was heard yet: this panel listens")


_LOG = (
    Column("began", 19),
    Column("stream table", 20, grows=True),
    Column("action", 12),
    Column("state", 9),
    Column("changed", 14, right=True),
    Column("took", 6, right=True),
    Column("reason", 30, rank=1),
)


def draw_log(view: View) -> Sheet:
    """Draw the end of the log file, and the latest refreshes of all stream tables."""
    lines = []
    if view.log_path:
        lines.append(heading(f"the end of {view.log_path}"))
        lines += [words(line) for line in view.log]
        lines.append(heading("the latest refreshes"))
    for one in view.picture.timeline or ():
        failed = one.error_message is not None
        took = None if one.end_time is None else (one.end_time - one.start_time).total_seconds()
        cells = (
            cell(day_and_clock(one.start_time)),
            cell(one.stream_table),
            cell(one.action.value if one.action else ""),
            cell(one.status.value.lower(), Tone.BAD if failed else Tone.PLAIN),
            cell(f"+{one.rows_inserted:,} -{one.rows_deleted:,}"),
            cell("" if took is None else f"{took * 1000:,.0f}ms", order=took),
            cell(one.error_message or one.reason, Tone.BAD if failed else Tone.DIM),
        )
        lines.append(Line(cells, str(one.stream_table)))
    return Sheet(_LOG, tuple(lines), "no refresh is on record")
