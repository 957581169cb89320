"""The overview: every stream table, how fresh it is, and what its latest refreshes took."""

from __future__ import annotations

from functools import lru_cache

from pgtrickle.catalog.console.lines import Latencies, TableLine
from pgtrickle.catalog.console.picture import LATENCIES
from pgtrickle.console.figures import age, amount, milliseconds, sparkline
from pgtrickle.console.sheet import Cell, Column, Line, Sheet, Tone, cell
from pgtrickle.console.view import View

COLUMNS = (
    Column("stream table", 16, grows=True),
    Column("state", 11),
    Column("age/target", 11, right=True, counts=True),
    Column("last", 5),
    Column("latencies", LATENCIES),
    Column("took", 6, right=True),
    Column("changed", 8, rank=1, right=True),
    Column("rows", 8, rank=2, right=True),
    Column("mode", 12, rank=3),
    Column("engine", 8, rank=3),
    Column("schedule", 10, rank=4),
    Column("errors", 6, rank=4, right=True),
)
_NO_BARS = " " * LATENCIES
_ENDS = {"FAILED": "fail", "CANCELLED": "stop", "SKIPPED": "skip", "RUNNING": "runs"}
_ACTIONS = {"DIFFERENTIAL": "diff", "NO_DATA": "none", "FULL": "full", "REINITIALIZE": "reinit"}


def draw(view: View) -> Sheet:
    """Draw the overview."""
    picture = view.picture
    running = {one.stream_table for one in picture.running or ()}
    held = {one.stream_table for one in picture.holds or ()}
    known = {one.id: one for one in picture.latencies or ()}
    lines = (
        _line(table, state_of(table, running, held), known.get(table.id))
        for table in picture.tables or ()
    )
    return Sheet(COLUMNS, tuple(lines), "no stream tables: pgtrickle create --help")


def state_of(table: TableLine, running: set[str], held: set[str]) -> Cell:
    """Say in a sign and a word how a stream table is; the worst comes first when sorted."""
    if table.status in {"SUSPENDED", "ERROR"}:
        return cell("■ suspended", Tone.BAD, 0)
    if table.failing:
        return cell("✖ failing", Tone.BAD, 1)
    if table.late and table.name not in held:
        return cell("▲ late", Tone.WARNING, 2)
    if table.name in running:
        return cell("» running", Tone.STRONG, 3)
    if table.name in held:
        return cell("‖ held", Tone.WARNING, 4)
    if not table.populated:
        return cell("○ loading", Tone.DIM, 5)
    return cell("● fresh", Tone.GOOD, 6)


def target_of(table: TableLine) -> float | None:
    """Return the age that was promised; without a promise, the interval of the schedule."""
    return table.interval_s if table.target_s is None else table.target_s


def _line(table: TableLine, state: Cell, latest: Latencies | None) -> Line:
    """Draw a line; from one second to the next, hardly anything but the age is another."""
    tone = Tone.WARNING if table.late else Tone.PLAIN
    name, *rest = _lasting(
        table.name,
        table.rows,
        table.refresh_mode,
        table.effective_refresh_mode,
        table.engine,
        table.schedule,
        table.consecutive_errors,
        latest,
    )
    return Line((name, state, freshness_of(table, tone), *rest), table.name)


def freshness_of(table: TableLine, tone: Tone = Tone.PLAIN) -> Cell:
    """Say how old a stream table is beside how old it may be, in whole seconds."""
    seconds = None if table.age_s is None else round(table.age_s)
    return _freshness(seconds, target_of(table), tone)


@lru_cache(maxsize=8192)
def _freshness(seconds: int | None, target: float | None, tone: Tone) -> Cell:
    # Those of the same second look the same.
    return Cell(f"{age(seconds)}/{age(target)}", tone, seconds)


@lru_cache(maxsize=8192)
def _lasting(
    name: str,
    rows: int | None,
    mode: str,
    effective: str,
    engine: str | None,
    schedule: str,
    errors: int,
    latest: Latencies | None,
) -> tuple[Cell, ...]:
    """Draw what stays as it is until the next refresh."""
    took = latest.milliseconds[-1] if latest and latest.milliseconds else None
    changed = latest.changed if latest else None
    # Figures of our own need no look for what would steer a terminal: there may be thousands.
    return (
        cell(name),
        _action(latest),
        Cell(sparkline(latest.milliseconds, LATENCIES) if latest else _NO_BARS),
        Cell(milliseconds(took), order=took),
        Cell(amount(changed), order=changed),
        Cell(amount(rows), order=rows),
        cell(mode.lower() if mode == effective else f"{mode.lower()}>{effective.lower()}"),
        cell((latest.engine if latest else None) or engine or "-"),
        cell(schedule),
        cell(str(errors or ""), Tone.BAD if errors else Tone.PLAIN, errors),
    )


def _action(latest: Latencies | None) -> Cell:
    if latest is None or latest.status is None:
        return Cell("-")
    if latest.status != "COMPLETED":
        return cell(_ENDS.get(latest.status, latest.status.lower()), Tone.BAD)
    return cell(_ACTIONS.get(latest.action or "", (latest.action or "-").lower()))
