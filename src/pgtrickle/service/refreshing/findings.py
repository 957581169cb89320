"""Find the facts on which a refresh decides: its changes, and changes of its sources' shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.binding.bound_objects import find_disturbance
from pgtrickle.binding.functions.recorded import list_changed_functions
from pgtrickle.binding.rights import check_readable
from pgtrickle.capture.fingerprint import (
    explain_difference,
    list_all_files,
    list_fingerprints,
)
from pgtrickle.capture.polling import add_up_rows
from pgtrickle.capture.windows import SourceChanges, changed_sources, leaves_a_change
from pgtrickle.catalog.capture.gaps import list_capture_gaps, note_crashes, tells_of_crash
from pgtrickle.catalog.dependencies import Dependency
from pgtrickle.catalog.stream_tables import find_plan
from pgtrickle.model.frontier import Frontier, FrontierTime
from pgtrickle.model.stream_table import Action, StreamTable
from pgtrickle.plan.decide import Decision, Facts, has_work, only_time_passed
from pgtrickle.service.refreshing.costing.forecast import make_forecast
from pgtrickle.service.refreshing.foreign_frontier import is_foreign
from pgtrickle.service.refreshing.next_change import find_next_change
from pgtrickle.service.refreshing.refresh import Basis, Prepared
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot
from pgtrickle.service.refreshing.start_again import StartAgainError
from pgtrickle.service.sources.entry import list_positions
from pgtrickle.settings import Settings


@dataclass(frozen=True, slots=True)
class Findings:
    """The facts for the decision and for the steps after it."""

    facts: Facts
    changed: frozenset[str]  # keys of the sources with changed rows
    window_rows: dict[str, int]  # weighted rows in the buffers, by source name
    basis: Basis


@dataclass(frozen=True, slots=True)
class Ground:
    """The changes of the objects on which a stream table relies."""

    reshaped: tuple[str, ...]  # in words: it has to be compiled, captured and loaded again
    rivals: bool  # its names may mean other objects: it has to be compiled again


def look(
    prepared: Prepared, snapshot: Snapshot, buffers: BufferView, *, priced: bool = True
) -> Findings:
    """Find the facts for the decision; start again if the snapshot sees other sources.

    ``priced``: with a forecast.
    """
    refresh, stream_table = prepared.refresh, prepared.stream_table
    if not refresh.lessons.foreign and is_foreign(stream_table.frontier, snapshot.frontier):
        prepared.account.note_decision(Decision(Action.REINITIALIZE, ""))
        raise StartAgainError(refresh.learned(foreign=True))
    with prepared.account.timed("decide"):
        ground = look_at_ground(snapshot.connection, stream_table, prepared.dependencies)
        if ground.reshaped or ground.rivals:
            raise StartAgainError(refresh)
        findings = gather_facts(prepared, snapshot, buffers, priced=priced)
        if not refresh.lessons.crashes_noted and any(map(tells_of_crash, findings.facts.gaps)):
            # A buffer that a crash emptied becomes a gap, which ends when all consumers have seen
            # it.
            with refresh.runtime.connection() as connection:
                note_crashes(connection)
            raise StartAgainError(refresh.learned(crashes_noted=True))
        return findings


def look_at_ground(
    connection: Connection, stream_table: StreamTable, dependencies: Sequence[Dependency]
) -> Ground:
    """Compare the objects on which a stream table relies with the recorded ones."""
    prints = list_fingerprints(
        connection, {one.source_relid: one.columns_used for one in dependencies}
    )
    found = []
    for one in dependencies:
        now = prints.get(one.source_relid)
        if now is None:
            found.append(f"{one.source} was dropped")
        elif now != one.schema_fingerprint:
            found.append(explain_difference(str(one.source), one.schema_fingerprint, now))
    for function, gone in list_changed_functions(connection, stream_table.id):
        found.append(f"the function {function} was {'dropped' if gone else 'replaced'}")
    disturbance = find_disturbance(connection, stream_table.id)
    return Ground((*found, *disturbance.changes), disturbance.rivals)


def gather_facts(
    prepared: Prepared, snapshot: Snapshot, buffers: BufferView, *, priced: bool
) -> Findings:
    """Gather facts about the sources as the snapshot sees them."""
    refresh, stream_table, compiled = prepared.refresh, prepared.stream_table, prepared.compiled
    reshaped = refresh.lessons.reshaped
    names = {one.source_relid: str(one.source) for one in prepared.captured}
    changes = [] if reshaped else _changes(stream_table, snapshot, buffers, list(names))
    watched = _watched(prepared, buffers, changes)
    scanned = compiled.scanned
    changes = [one for one in changes if one.relid in scanned or one.relid in watched]
    truncated = {one.relid for one in changes if one.truncated}
    rows = {
        str(one.source_relid): add_up_rows(snapshot.connection, one.source, one.columns_read)
        for one in prepared.polled
    }
    sources = tuple(one.source_relid for one in prepared.dependencies)
    all_files = list_all_files(snapshot.connection, sources, stream_table.relid)
    files = {key: all_files[key] for key in map(str, names) if key in all_files}
    now = snapshot.time(refresh.runtime) if compiled.follows_time else None
    frontier = _frontier(prepared, snapshot, sources, now)
    plan = find_plan(snapshot.connection, stream_table.id) or {}
    stored = plan.get("files", files)
    rewritten = [
        name
        for relid, name in names.items()
        if relid not in truncated and str(stored.get(str(relid))) != files.get(str(relid))
    ]
    settings = refresh.runtime.settings
    facts = Facts(
        stream_table=stream_table,
        frontier=frontier,
        changed_rows={names[one.relid]: one.touched for one in changes if one.rows},
        truncated=tuple(names[relid] for relid in sorted(truncated)),
        rewritten=tuple(rewritten),
        polled=tuple(
            str(one.source)
            for one in prepared.polled
            if plan.get("rows", {}).get(str(one.source_relid)) != rows[str(one.source_relid)]
        ),
        source_rows=0.0,
        refusal=str(compiled.refusal) if compiled.refusal else None,
        reshaped=reshaped,
        time_dependent=compiled.binding.time_dependent and not compiled.follows_time,
        requested_full=refresh.requested_full,
        forced_full=settings.force_full_refresh,
        max_change_ratio=_max_change_ratio(settings, stream_table),
        gaps=list_capture_gaps(buffers.connection, stream_table.id),
        clock_back=now is not None and frontier.time is not None and now.at < frontier.time.at,
        volatile=next(map(str, compiled.binding.volatile), ""),
        watched=tuple(
            f"{names[relid]} changed, which the function {compiled.binding.watchers[relid]} reads"
            for relid in watched
        ),
    )
    changed = {str(one.relid): one.rows for one in changes if one.rows}
    if has_work(facts):
        follows = changed and not truncated and not rewritten and not facts.polled
        follows = follows and not facts.watched
        follows = follows and not facts.gaps and compiled.refusal is None
        if follows or (compiled.follows_time and compiled.refusal is None):
            used = {one.source_relid: one.columns_read for one in prepared.captured}
            check_readable(snapshot.connection, used)
        if priced and not only_time_passed(facts):
            forecast, statistics = make_forecast(
                refresh.runtime,
                stream_table,
                snapshot.connection,
                compiled,
                list(names),
                changed if follows else None,
                prepared.engine_mode,
            )
            facts = replace(facts, forecast=forecast, source_rows=statistics.source_rows)
    weighted = {names[one.relid]: one.rows for one in changes if one.rows}
    basis = Basis(
        frontier,
        snapshot.taken_at,
        {"files": files, "rows": rows},
        facts.changed_rows,
        sources,
        all_files,
    )
    return Findings(facts, frozenset(changed), weighted, basis)


def _watched(
    prepared: Prepared, buffers: BufferView, changes: Sequence[SourceChanges]
) -> list[int]:
    """Return the changed tables that functions of the query read, by what those read."""
    before = prepared.stream_table.frontier
    columns = prepared.compiled.binding.watched
    return [
        one.relid
        for one in changes
        if one.relid in columns
        and before is not None
        and (
            one.truncated
            or leaves_a_change(
                buffers.connection,
                one.relid,
                columns[one.relid],
                before.snapshot,
                buffers.upper,
            )
        )
    ]


def _frontier(
    prepared: Prepared, snapshot: Snapshot, sources: Sequence[int], now: FrontierTime | None
) -> Frontier:
    """Return the new frontier, with the positions of the sources outside PostgreSQL, and the time.

    The time is a source only of queries that follow it, and never goes back.
    """
    frontier, before = snapshot.frontier, prepared.stream_table.frontier
    if now is not None:
        time = now.after(None if before is None else before.time)
        following = find_next_change(snapshot.connection, prepared.compiled.staged, time)
        frontier = replace(frontier, time=replace(time, next_change_at=following))
    if not prepared.positions:
        return frontier
    # Another process may have followed them since: the snapshot sees rows and position.
    positions = list_positions(snapshot.connection, sources)
    return replace(frontier, positions=positions)


def _max_change_ratio(settings: Settings, stream_table: StreamTable) -> float:
    own = stream_table.max_delta_fraction
    return settings.differential_max_change_ratio if own is None else own


def _changes(
    stream_table: StreamTable, snapshot: Snapshot, buffers: BufferView, relids: list[int]
) -> list[SourceChanges]:
    """Return the changes since the stream table's frontier, if that can still be compared."""
    frontier = stream_table.frontier
    if frontier is None or not frontier.same_database(snapshot.frontier):
        return []
    windows = [(relid, frontier.snapshot) for relid in relids]
    return changed_sources(buffers.connection, windows, buffers.upper)
