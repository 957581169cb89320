"""One stream table: definition, costs, stages and reads of the last refresh, history, plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgtrickle.catalog.console.lines import Definition, TableLine
from pgtrickle.catalog.console.picture import LATENCIES
from pgtrickle.catalog.refreshes.history import Refresh
from pgtrickle.console.figures import age, amount, clock, milliseconds, size, sparkline
from pgtrickle.console.sheet import Column, Line, Sheet, Tone, cell, heading, prose, words
from pgtrickle.console.sheets.overview import state_of, target_of
from pgtrickle.console.view import Explained, View

COLUMNS = (
    Column("", 8),
    Column("", 12),
    Column("", 9),
    Column("", 8, right=True),
    Column("", 8, right=True),
    Column("", 8, right=True),
    Column("", 20, grows=True),
)
_TITLES = ("began", "action", "state", "changed", "took", "predicted", "reason")


def draw(view: View) -> Sheet:
    """Draw all that is known of the stream table that is looked at."""
    if view.subject is None:
        return Sheet((), (), "choose a stream table in the overview, and press Enter")
    found = view.picture.definition or ()
    if not found:
        return Sheet((), (), f"there is no stream table {view.subject} any more")
    return Sheet(COLUMNS, tuple(_lines(view, found[0])))


def _lines(view: View, definition: Definition) -> Iterator[Line]:
    picture = view.picture
    for table in picture.tables or ():
        if table.name == definition.name:
            running = {one.stream_table for one in picture.running or ()}
            held = {one.stream_table: one.reason for one in picture.holds or ()}
            yield from _state(table, definition, running, held)
    history = picture.history or ()
    yield from _latencies(history)
    last = next((one for one in history if one.timings_ms), None)
    if last is not None:
        yield from _last(last)
    yield from _history(history)
    yield heading("query, as it was written")
    yield from prose(definition.query)
    yield heading("query, as PostgreSQL resolved it")
    yield from prose(definition.defining_query)
    yield from _plan(view.explained, definition.name)


def _state(
    table: TableLine, definition: Definition, running: set[str], held: Mapping[str, str]
) -> Iterator[Line]:
    state = state_of(table, running, set(held))
    target = "" if table.target_s is None else ", a service level"
    yield heading(definition.name)
    yield words(
        f"  {state.text}: {age(table.age_s)} old, to be at most {age(target_of(table))}{target}",
        state.tone,
    )
    engine = table.engine or "as the setting says"
    yield words(
        f"  {table.refresh_mode} (in effect {table.effective_refresh_mode}), engine {engine},"
        f" schedule {table.schedule}, tier {table.tier}, owner {table.owner}"
    )
    if definition.downgrade_reason:
        yield words(f"  not differential: {definition.downgrade_reason}", Tone.WARNING)
    if table.name in held:
        yield words(f"  held back: {held[table.name]}", Tone.WARNING)
    if definition.fuse_reason:
        yield words(f"  fuse {definition.fuse}: {definition.fuse_reason}", Tone.WARNING)
    if table.last_error:
        yield words(f"  {table.consecutive_errors} errors: {table.last_error}", Tone.BAD)


def _latencies(history: Sequence[Refresh]) -> Iterator[Line]:
    done = [
        (one.end_time - one.start_time).total_seconds() * 1000
        for one in reversed(history)
        if one.end_time is not None and one.status.value == "COMPLETED"
    ][-LATENCIES:]
    if done:
        most, least = milliseconds(max(done)), milliseconds(min(done))
        yield words(f"  latencies {sparkline(done, len(done))}  {least} to {most}")


def _last(last: Refresh) -> Iterator[Line]:
    yield heading(f"last refresh that computed: {last.id}, {clock(last.start_time)}")
    for step, spent in sorted(last.timings_ms.items(), key=lambda one: -one[1]):
        yield words(f"  {step:<24} {milliseconds(spent):>8}")
    for read in last.reads:
        rows = "not counted" if read.rows < 0 else f"{amount(read.rows)} rows, {size(read.bytes)}"
        full = read.kind == "full"
        yield words(
            f"  read {read.source}: {read.kind}, bounded by {read.bounded_by or 'nothing'}, {rows}",
            Tone.WARNING if full else Tone.PLAIN,
        )
    predicted = (
        f"  predicted: differential {milliseconds(last.predicted_differential_ms)},"
        f" full {milliseconds(last.predicted_full_ms)}; actual {milliseconds(last.actual_ms)}"
    )
    yield words(predicted)


def _history(history: Sequence[Refresh]) -> Iterator[Line]:
    yield heading("history")
    yield Line(tuple(cell(one, Tone.DIM) for one in _TITLES))
    for one in history:
        failed = one.error_message is not None
        took = None if one.end_time is None else (one.end_time - one.start_time).total_seconds()
        yield Line(
            (
                cell(clock(one.start_time)),
                cell(one.action.value if one.action else ""),
                cell(one.status.value.lower(), Tone.BAD if failed else Tone.PLAIN),
                cell(amount(one.delta_row_count)),
                cell("" if took is None else milliseconds(took * 1000)),
                cell(milliseconds(one.predicted_ms)),
                cell(one.error_message or one.reason, Tone.BAD if failed else Tone.DIM),
            )
        )


def _plan(explained: Explained | None, name: str) -> Iterator[Line]:
    yield heading("plan, if every source has changed")
    if explained is None or explained.name != name:
        yield words(
            "  it is made when it is asked for: by e, or by the button plan of the page", Tone.DIM
        )
        return
    if explained.document is None:
        yield words(f"  {explained.refusal}", Tone.WARNING)
        return
    yield from _stages(explained.document, explained.figures)


def _stages(document: Mapping[str, Any], figures: Mapping[str, Any]) -> Iterator[Line]:
    stages = document.get("stages") or ()
    if not stages:
        refusal = document.get("refusal") or "the plan is shown to those who may act as its owner"
        yield words(f"  {refusal}", Tone.WARNING)
    for stage in stages:
        why = f" ({stage['why_engine']})" if stage.get("why_engine") else ""
        yield words(f"  stage {stage['name']} on {stage['engine']}{why}", Tone.STRONG)
        yield words(f"    {stage['delta']}")
        known = figures.get("stages", {}).get(stage["name"])
        if known is not None:
            yield words(
                f"    {figures['of']}: {amount(known['rows'])} rows, {size(known['bytes'])},"
                f" {milliseconds(known['ms'])}, of it {milliseconds(known['read_ms'])} to read"
            )
        for state in stage["state"]:
            yield words(f"    state {state['name']}: {state['holds']}")
        for read in stage["reads"]:
            unbounded = read["why_unbounded"]
            yield words(
                f"    read {read['source']}: {read['kind']}, bounded by"
                f" {read['bounded_by'] or 'nothing'}"
                + (f": {unbounded}" if unbounded else "")
                + _flowed(known or figures, read["source"]),
                Tone.WARNING if unbounded else Tone.PLAIN,
            )
    if stages:
        yield words(f"  {_whole(figures)}", Tone.DIM)
    yield heading("missing indexes")
    missing = document.get("missing_indexes") or ()
    if not missing:
        yield words("  none", Tone.GOOD)
    for one in missing:
        yield words(f"  {one}", Tone.WARNING)


def _flowed(figures: Mapping[str, Any], source: str) -> str:
    """Say how much came of a source when it was last read."""
    found = figures.get("reads", {}).get(source)
    return "" if found is None else f"; last {amount(found[0])} rows, {size(found[1])}"


def _whole(figures: Mapping[str, Any]) -> str:
    """Say which refresh the figures are of, and what came of it."""
    if not figures.get("of"):
        return "no refresh has figures yet"
    if "rows" not in figures:
        return f"figures of {figures['of']}"
    took = milliseconds(figures["ms"])
    return f"figures of {figures['of']}: {amount(figures['rows'])} rows changed in {took}"
