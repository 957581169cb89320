"""The planner: the interval that the history of each stream table speaks for, and why."""

from __future__ import annotations

from pgtrickle.catalog.console.lines import TableLine
from pgtrickle.console.figures import age
from pgtrickle.console.sheet import Column, Line, Sheet, Tone, cell
from pgtrickle.console.view import View
from pgtrickle.model.scheduling.recommendation import ScheduleAdvice, schedule_to_take

COLUMNS = (
    Column("stream table", 16, grows=True),
    Column("schedule", 10),
    Column("every", 6, right=True),
    Column("better", 6, right=True),
    Column("change", 7, right=True),
    Column("sure", 4, right=True),
    Column("to take", 7, rank=2),
    Column("most changes", 14, rank=3),
    Column("why", 30, rank=1),
)


def draw(view: View) -> Sheet:
    """Draw one line a stream table; advice is read for those on the screen alone."""
    known = {one.stream_table: one for one in view.picture.advice or ()}
    lines = tuple(_line(one, known.get(one.name)) for one in view.picture.tables or ())
    return Sheet(COLUMNS, lines, "no stream tables: pgtrickle create --help")


def _line(table: TableLine, advice: ScheduleAdvice | None) -> Line:
    better = advice and advice.recommended_interval_seconds
    delta = advice and advice.delta_pct
    cells = (
        cell(table.name),
        cell(table.schedule),
        cell(age(table.interval_s), order=table.interval_s),
        cell(age(better), order=better),
        cell("" if delta is None else f"{delta:+.0f}%", order=delta),
        cell(f"{advice.confidence:.0%}" if advice else "", order=advice and advice.confidence),
        cell(advice and schedule_to_take(advice), Tone.STRONG),
        cell(advice and advice.peak_window_cron),
        cell(advice.reasoning if advice else "", Tone.DIM),
    )
    return Line(cells, table.name)
