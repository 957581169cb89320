"""Decide the action of a refresh, and give the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgtrickle.model.frontier import Frontier
from pgtrickle.model.stream_table import Action, RefreshMode, StreamTable
from pgtrickle.plan.cost.choose import Forecast


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts on which the decision of a refresh depends."""

    stream_table: StreamTable
    frontier: Frontier  # of the snapshot that the refresh reads
    changed_rows: dict[str, int]  # by source name, only sources that changed; an UPDATE is one
    truncated: tuple[str, ...]  # sources with a TRUNCATE in the window
    source_rows: float  # estimated rows of all sources; 0 where unknown
    refusal: str | None  # why no delta can be derived
    reshaped: tuple[str, ...]  # changed properties of sources, described
    rewritten: tuple[str, ...]  # sources rewritten without a TRUNCATE, for example by ALTER TABLE
    polled: tuple[str, ...]  # sources without triggers whose rows changed
    time_dependent: bool  # and how the rows move as time passes is not known
    requested_full: bool
    forced_full: bool  # by a setting, whatever the mode
    max_change_ratio: float
    gaps: tuple[str, ...] = ()  # why changes of a source are in no buffer
    forecast: Forecast | None = None  # if there is work to do
    clock_back: bool = False  # the clock shows an earlier time than that of the contents
    volatile: str = ""  # which function gives other rows for the same data
    watched: tuple[str, ...] = ()  # changed sources that functions of the query read, in words


@dataclass(frozen=True, slots=True)
class Decision:
    """The action of a refresh and the recorded reason."""

    action: Action
    reason: str
    forecast: Forecast | None = None
    only_time: bool = False  # passed: no source has changed


def decide(facts: Facts) -> Decision:
    """Choose the action; the first rule that applies decides."""
    decision = replace(_first_rule(facts), forecast=facts.forecast)
    back = _clock_stepped_back(facts)
    return replace(decision, reason=f"{decision.reason}; {back}") if back else decision


def has_work(facts: Facts) -> bool:
    """Tell whether the decision will be anything but NO_DATA: only then a forecast is needed."""
    return bool(
        facts.changed_rows
        or facts.truncated
        or facts.polled
        or facts.time_dependent
        or facts.volatile
        or _time_passed(facts)
        or _without_contents(facts)
    )


def only_time_passed(facts: Facts) -> bool:
    """Tell whether the passing of time is the only thing to follow."""
    return _time_passed(facts) and not (
        facts.changed_rows
        or facts.truncated
        or facts.polled
        or facts.volatile
        or _without_contents(facts)
    )


def _time_passed(facts: Facts) -> bool:
    """Tell whether rows may have moved because the time has."""
    before, now = facts.stream_table.frontier, facts.frontier.time
    if now is None or before is None or before.time is None:
        return False
    due = before.time.next_change_at
    return before.time.at < now.at and (due is None or due <= now.at)


def _clock_stepped_back(facts: Facts) -> str:
    """Describe a clock that shows an earlier time than the contents have."""
    before = facts.stream_table.frontier
    if before is None or before.time is None or facts.frontier.time is None or not facts.clock_back:
        return ""
    return f"the clock stepped back: the time of the contents stays {before.time.at}"


def _first_rule(facts: Facts) -> Decision:
    table = facts.stream_table
    if (decision := _without_contents(facts)) is not None:
        return decision
    if table.refresh_mode is RefreshMode.IMMEDIATE:
        return Decision(Action.FULL, "writers maintain it; it was computed anew")
    if facts.polled and facts.refusal is None:
        return Decision(Action.FULL, f"{', '.join(facts.polled)} changed, as polling shows")
    if not has_work(facts):
        return Decision(Action.NO_DATA, "no source changed")
    if only_time_passed(facts) and table.refresh_mode is not RefreshMode.FULL:
        return Decision(Action.DIFFERENTIAL, "time has passed", only_time=True)
    if not facts.changed_rows and not facts.truncated and not facts.polled:
        why = facts.volatile or "the query depends on the current time"
        return Decision(Action.FULL, why, only_time=True)
    if facts.refusal is not None:
        return Decision(Action.FULL, facts.refusal)
    if table.refresh_mode is RefreshMode.FULL:
        return Decision(Action.FULL, "refresh_mode is FULL")
    if facts.truncated:
        return Decision(Action.FULL, f"{', '.join(facts.truncated)} was truncated")
    if facts.watched:
        return Decision(Action.FULL, "; ".join(facts.watched))
    if table.refresh_mode is RefreshMode.AUTO:
        return _by_cost(facts)
    return Decision(Action.DIFFERENTIAL, _changes(facts))


def decide_circle(members: Sequence[Facts], *, grown: bool) -> Decision:
    """Choose the action for all members of a circle; ``grown`` if its sources only gained rows.

    After inserts it continues from the contents.  Otherwise the fixpoint is computed from scratch:
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
    """Return why the contents of a member cannot be continued, or None."""
    table = facts.stream_table
    if (decision := _without_contents(facts)) is not None:
        return decision
    if facts.polled:
        return Decision(Action.FULL, f"{', '.join(facts.polled)} changed, as polling shows")
    if facts.truncated:
        return Decision(Action.FULL, f"{', '.join(facts.truncated)} was truncated")
    if facts.watched:
        return Decision(Action.FULL, "; ".join(facts.watched))
    if facts.changed_rows and table.refresh_mode is RefreshMode.FULL:
        return Decision(Action.FULL, "refresh_mode is FULL")
    return None


def _without_contents(facts: Facts) -> Decision | None:
    """Choose an action that starts from scratch, if requested or if it is the only one."""
    table = facts.stream_table
    if table.frontier is None or not table.populated:
        return Decision(Action.FULL, "first load")
    if (reason := _start_anew(facts, table.frontier)) is not None:
        return Decision(Action.REINITIALIZE, reason)
    if facts.requested_full:
        return Decision(Action.FULL, "requested")
    if facts.forced_full:
        return Decision(Action.FULL, "force_full_refresh is set")
    return None


def _start_anew(facts: Facts, frontier: Frontier) -> str | None:
    """Return why the changes since the frontier are not enough, or None."""
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
    if (reason := _other_time(frontier, facts.frontier)) is not None:
        return reason
    if facts.stream_table.needs_reinit:
        return "marked after an error or a change of a source"
    return None


def _other_time(before: Frontier, now: Frontier) -> str | None:
    """Return why the time of the contents cannot be continued, or None."""
    if now.time is None:
        return None
    if before.time is None:
        return "the time of its contents is not known"
    if before.time.zone != now.time.zone:
        return f"the time zone changed from {before.time.zone} to {now.time.zone}"
    return None


def _by_cost(facts: Facts) -> Decision:
    limit = facts.max_change_ratio * facts.source_rows
    changed = sum(facts.changed_rows.values())
    if facts.source_rows > 0 and limit < changed:
        return Decision(
            Action.FULL,
            f"{changed} changed rows exceed {facts.max_change_ratio:.0%} of about"
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
