"""Decide what a refresh does, and say why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgtrickle.model.frontier import Frontier
from pgtrickle.model.stream_table import Action, RefreshMode, StreamTable
from pgtrickle.refresh.cost.choose import Forecast


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when a refresh decides."""

    stream_table: StreamTable
    frontier: Frontier  # of the snapshot that the refresh reads
    changed_rows: dict[str, int]  # by source name, only sources that changed
    truncated: tuple[str, ...]  # sources with a TRUNCATE in the window
    source_rows: float  # estimated rows of all sources; 0 where unknown
    refusal: str | None  # why no delta can be derived
    reshaped: tuple[str, ...]  # what the query relies on and how it changed, in words
    rewritten: tuple[str, ...]  # sources stored anew without a TRUNCATE: by ALTER TABLE, say
    polled: tuple[str, ...]  # sources without triggers whose rows are not what they were
    time_dependent: bool
    requested_full: bool
    max_change_ratio: float
    touched_rows: int = 0  # as changed_rows, but an UPDATE counts once
    gaps: tuple[str, ...] = ()  # why changes of a source are in no buffer
    forecast: Forecast | None = None  # where something must be done


@dataclass(frozen=True, slots=True)
class Decision:
    """The action of a refresh and the reason that goes on record."""

    action: Action
    reason: str
    forecast: Forecast | None = None


def decide(facts: Facts) -> Decision:
    """Choose the action; the first rule that applies decides."""
    return replace(_first_rule(facts), forecast=facts.forecast)


def _first_rule(facts: Facts) -> Decision:
    table = facts.stream_table
    if (decision := _without_contents(facts)) is not None:
        return decision
    if facts.polled and facts.refusal is None:
        return Decision(Action.FULL, f"{', '.join(facts.polled)} changed, as polling shows")
    if not facts.changed_rows and not facts.truncated and not facts.polled:
        if facts.time_dependent:
            return Decision(Action.FULL, "the query depends on the current time")
        return Decision(Action.NO_DATA, "no source changed")
    if facts.refusal is not None:
        return Decision(Action.FULL, facts.refusal)
    if table.refresh_mode is RefreshMode.FULL:
        return Decision(Action.FULL, "refresh_mode is FULL")
    if facts.truncated:
        return Decision(Action.FULL, f"{', '.join(facts.truncated)} was truncated")
    if table.refresh_mode is RefreshMode.AUTO:
        return _by_cost(facts)
    return Decision(Action.DIFFERENTIAL, _changes(facts))


def decide_circle(members: Sequence[Facts], *, grown: bool) -> Decision:
    """Choose the action for all members of a circle; ``grown``, if rows only came to what it reads.

    New rows lead on from the contents.  After anything else the fixpoint is computed from nothing:
    rows that support one another in a circle would keep each other alive.
    """
    anew = [_anew(facts) for facts in members]
    for decision in filter(None, anew):
        return decision
    changed = {name: rows for facts in members for name, rows in facts.changed_rows.items()}
    if not changed:
        return Decision(Action.NO_DATA, "no source changed")
    listed = _list_changes(changed)
    if grown:
        return Decision(Action.DIFFERENTIAL, listed)
    return Decision(Action.FULL, f"{listed}, not all of them inserted")


def _anew(facts: Facts) -> Decision | None:
    """Say why the contents of a member are nothing to go on from, if they are not."""
    table = facts.stream_table
    if (decision := _without_contents(facts)) is not None:
        return decision
    if facts.polled:
        return Decision(Action.FULL, f"{', '.join(facts.polled)} changed, as polling shows")
    if facts.truncated:
        return Decision(Action.FULL, f"{', '.join(facts.truncated)} was truncated")
    if facts.changed_rows and table.refresh_mode is RefreshMode.FULL:
        return Decision(Action.FULL, "refresh_mode is FULL")
    return None


def _without_contents(facts: Facts) -> Decision | None:
    """Choose what begins with nothing, where nothing else is possible or it was asked for."""
    table = facts.stream_table
    if table.frontier is None or not table.populated:
        return Decision(Action.FULL, "first load")
    if (reason := _start_anew(facts, table.frontier)) is not None:
        return Decision(Action.REINITIALIZE, reason)
    if facts.requested_full:
        return Decision(Action.FULL, "requested")
    return None


def _start_anew(facts: Facts, frontier: Frontier) -> str | None:
    """Say why the changes since the frontier do not lead to the contents, if they do not."""
    if facts.reshaped:
        return "; ".join(facts.reshaped)
    if not frontier.same_database(facts.frontier):
        return "the database was restored or cloned elsewhere"
    if frontier.snapshot.xmax > facts.frontier.snapshot.xmax:
        return "the server's transaction ids moved back"
    if facts.gaps:
        return "; ".join(facts.gaps)
    if facts.rewritten:
        return f"{', '.join(facts.rewritten)} was rewritten"
    if facts.stream_table.needs_reinit:
        return "marked after an error or a change of a source"
    return None


def _by_cost(facts: Facts) -> Decision:
    limit = facts.max_change_ratio * facts.source_rows
    if facts.source_rows > 0 and limit < facts.touched_rows:
        return Decision(
            Action.FULL,
            f"{facts.touched_rows} changed rows exceed {facts.max_change_ratio:.0%} of about"
            f" {facts.source_rows:.0f} source rows",
        )
    if facts.forecast is None:
        return Decision(Action.DIFFERENTIAL, _changes(facts))
    return Decision(facts.forecast.choice, f"{facts.forecast.in_words}; {_changes(facts)}")


def _changes(facts: Facts) -> str:
    return _list_changes(facts.changed_rows)


def _list_changes(changed: Mapping[str, int]) -> str:
    listed = ", ".join(f"{name}: {rows}" for name, rows in sorted(changed.items()))
    return f"changed rows in {listed}"
