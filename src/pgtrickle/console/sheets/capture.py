"""Capture: the buffer of each source, how far its consumers are behind, and the slots."""

from __future__ import annotations

from pgtrickle.catalog.capture.health import CaptureHealth
from pgtrickle.console.figures import age, size
from pgtrickle.console.sheet import Column, Line, Sheet, Tone, cell, heading, words
from pgtrickle.console.view import View
from pgtrickle.model.text.names import QualifiedName

COLUMNS = (
    Column("source", 24, grows=True),
    Column("captured by", 11),
    Column("buffer", 9, right=True),
    Column("readers", 7, right=True),
    Column("lag", 6, right=True),
    Column("durability", 10, rank=1),
    Column("alert", 18),
)


def draw(view: View) -> Sheet:
    """Draw one line a source, with all that is wrong with its capture, and the slots below."""
    picture = view.picture
    ages = {one.name: one.age_s for one in picture.tables or ()}
    oldest: dict[str, float | None] = {}
    for edge in picture.graph or ():
        seen = [one for one in (oldest.get(edge.source), ages.get(edge.name)) if one is not None]
        oldest[edge.source] = max(seen, default=None)
    alerts: dict[int, list[str]] = {}
    for one in picture.capture or ():
        alerts.setdefault(one.source_relid, []).extend([one.alert] if one.alert else [])
    sources = {one.source_relid: one for one in picture.capture or ()}
    lines = [_source(one, alerts[relid], oldest) for relid, one in sources.items()]
    if picture.slots:
        lines.append(heading("slots of this database"))
    for slot in picture.slots or ():
        state = "active" if slot.active else "not read"
        lines.append(
            words(
                f"  {slot.name}: {state}, {slot.wal_status or 'unknown'},"
                f" {size(slot.lag_bytes)} of log kept",
                Tone.BAD if slot.wal_status in {"lost", "unreserved"} else Tone.PLAIN,
            )
        )
    return Sheet(COLUMNS, tuple(lines), "no source is captured")


def _source(one: CaptureHealth, alerts: list[str], oldest: dict[str, float | None]) -> Line:
    name = _written(one.source)
    cells = (
        cell(name),
        cell("log" if one.cdc_mode == "WAL" else "triggers"),
        cell(size(one.buffer_bytes), order=one.buffer_bytes),
        cell(one.consumers, order=one.consumers),
        cell(age(oldest.get(name)), order=oldest.get(name)),
        cell(one.durability),
        cell(", ".join(alerts).replace("_", " "), Tone.WARNING),
    )
    return Line(cells, name)


def _written(source: str) -> str:
    """Return a name as other panels have it; the check joins schema and name without quotes."""
    schema, _, name = source.partition(".")
    return str(QualifiedName(schema, name))
