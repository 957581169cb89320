"""The cluster: every process that refreshes stream tables, and what it does."""

from __future__ import annotations

from datetime import datetime

from pgtrickle.console.figures import age, amount, between
from pgtrickle.console.sheet import Column, Line, Sheet, Tone, cell
from pgtrickle.console.view import View
from pgtrickle.model.status_report import WorkerSummary

COLUMNS = (
    Column("process", 20, grows=True),
    Column("role", 12),
    Column("up", 5, right=True),
    Column("seen", 5, right=True),
    Column("runs", 5, right=True),
    Column("longest", 7, right=True),
    Column("waits", 5, right=True),
    Column("room", 5, rank=1, right=True),
    Column("package", 10, rank=2),
    Column("why it waits", 20, rank=1),
)


def draw(view: View) -> Sheet:
    """Draw one line a process, the daemon that leads first."""
    now = view.picture.moment.taken_at
    lines = tuple(_line(one, now) for one in view.picture.workers or ())
    return Sheet(COLUMNS, lines, "nothing refreshes: start a daemon with pgtrickle run")


def _line(one: WorkerSummary, now: datetime) -> Line:
    daemon = ("● leads", Tone.GOOD) if one.leads else ("○ stands by", Tone.PLAIN)
    role = ("» command", Tone.STRONG) if one.started_at is None else daemon
    longest = between(one.oldest_running_since, now)
    return Line(
        (
            cell(one.daemon),
            cell(*role),
            cell(age(between(one.started_at, now))),
            cell(age(between(one.seen_at, now))),
            cell(one.refreshes_running, order=one.refreshes_running),
            cell(age(longest), order=longest),
            cell(one.waiting, Tone.WARNING if one.waiting else Tone.PLAIN, one.waiting),
            cell(amount(one.refreshes_admitted), order=one.refreshes_admitted),
            cell(one.package),
            cell(one.saturation, Tone.WARNING),
        )
    )
