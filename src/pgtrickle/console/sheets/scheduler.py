"""The scheduler: daemons, what runs and how far it is, what is due, what is held and why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from pgtrickle.catalog.console.lines import TableLine
from pgtrickle.catalog.console.picture import Picture
from pgtrickle.console.figures import age, amount, between
from pgtrickle.console.sheet import Column, Line, Sheet, Tone, cell, heading, words
from pgtrickle.console.view import View
from pgtrickle.model.status_report import RunningRefresh

COLUMNS = (
    Column("stream table", 24, grows=True),
    Column("due", 10, right=True),
    Column("schedule", 14),
    Column("tier", 6),
)
_SOONEST = 50


def draw(view: View) -> Sheet:
    """Draw the sections, what runs first."""
    return Sheet(COLUMNS, tuple(_lines(view.picture)))


def _lines(picture: Picture) -> Iterator[Line]:
    now = picture.moment.taken_at
    yield heading("daemons")
    if not picture.daemons:
        yield words("  none runs: start one with pgtrickle run", Tone.BAD)
    for one in picture.daemons or ():
        role = "leads" if one.leads else "stands by"
        begun = age(between(one.started_at, now))
        yield words(f"  {one.daemon}: {role}, since {begun}, pgtrickle {one.package}")
    yield heading("running")
    if not picture.running:
        yield words("  nothing", Tone.DIM)
    for refresh in picture.running or ():
        yield words(
            f"  {refresh.stream_table}: {_progress(refresh, now)}", key=refresh.stream_table
        )
    yield heading("held back")
    if not picture.holds:
        yield words("  nothing", Tone.DIM)
    for hold in picture.holds or ():
        yield words(f"  {hold.stream_table}: {hold.reason}", Tone.WARNING, hold.stream_table)
    yield heading(f"next {_SOONEST} that are due")
    held = {one.stream_table for one in picture.holds or ()}
    for due, table in soonest(picture.tables or (), now)[:_SOONEST]:
        if table.name in held or table.status in {"SUSPENDED", "ERROR"}:
            continue
        left = (due - now).total_seconds()
        shown = f"in {age(left)}" if left > 0 else "now"
        cells = (cell(f"  {table.name}"), cell(shown), cell(table.schedule), cell(table.tier))
        yield Line(cells, table.name)


def soonest(tables: tuple[TableLine, ...], now: datetime) -> list[tuple[datetime, TableLine]]:
    """Return the stream tables with an interval, by the moment at which each is due next.

    A daemon may know better: it waits longer after failures, and begins at once after a change.
    """
    found = [
        (
            now if one.last_refresh_at is None else one.last_refresh_at + timedelta(seconds=every),
            one,
        )
        for one in tables
        if (every := one.interval_s) is not None
    ]
    return sorted(found, key=lambda one: (one[0], one[1].name))


def _progress(one: RunningRefresh, now: datetime) -> str:
    begun = f"for {age(between(one.running_since, now))}, by {one.daemon}"
    if one.stage is None:
        return begun
    return f"{begun}, {one.stage}: {amount(one.rows_read)} read, {amount(one.rows_staged)} staged"
