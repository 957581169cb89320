"""Gather what a refresh must know before it decides: what changed, and whether the ground moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.capture.fingerprint import (
    explain_difference,
    list_files,
    list_fingerprints,
)
from pgtrickle.capture.polling import add_up_rows
from pgtrickle.capture.windows import SourceChanges, changed_sources
from pgtrickle.catalog.bound_objects import find_disturbance
from pgtrickle.catalog.capture_gaps import list_capture_gaps
from pgtrickle.catalog.dependencies import Dependency, SourceType
from pgtrickle.catalog.functions_used import list_changed_functions
from pgtrickle.catalog.stream_tables import find_plan
from pgtrickle.model.stream_table import Action, RefreshMode, StreamTable
from pgtrickle.refresh.decide import Facts, decide
from pgtrickle.service.compile import Compiled
from pgtrickle.service.forecast import make_forecast
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.snapshot import BufferView, Snapshot
from pgtrickle.settings import Settings

_CAPTURED = frozenset({SourceType.TABLE, SourceType.STREAM_TABLE})
_POLLED = frozenset({SourceType.MATVIEW, SourceType.FOREIGN_TABLE})


@dataclass(frozen=True, slots=True)
class Findings:
    """The facts for the decision, and what the steps after it need of them."""

    facts: Facts
    changed: frozenset[str]  # keys of the sources with changed rows
    # What a later refresh compares its sources with: the files that store them, and what stands
    # for the rows of those that are polled.
    plan: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Ground:
    """How what a stream table relies on differs from what it was."""

    reshaped: tuple[str, ...]  # in words: it has to be compiled, captured and loaded anew
    rivals: bool  # names that it uses may mean something else: it has to be compiled anew


def look_at_ground(
    connection: Connection, stream_table: StreamTable, dependencies: Sequence[Dependency]
) -> Ground:
    """Compare what a stream table relies on with what it was."""
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
    runtime: Runtime,
    stream_table: StreamTable,
    snapshot: Snapshot,
    buffers: BufferView,
    dependencies: Sequence[Dependency],
    compiled: Compiled,
    *,
    reshaped: tuple[str, ...],
    requested_full: bool,
    priced: bool = True,
) -> Findings:
    """Look at the sources as the snapshot sees them; ``priced``, say what following them costs."""
    names = {one.source_relid: str(one.source) for one in captured(dependencies)}
    changes = [] if reshaped else _changes(stream_table, snapshot, buffers, list(names))
    truncated = {one.relid for one in changes if one.truncated}
    files = list_files(snapshot.connection, list(names))
    rows = {
        str(one.source_relid): add_up_rows(snapshot.connection, one.source, one.columns_used)
        for one in polled(dependencies)
    }
    plan = find_plan(snapshot.connection, stream_table.id) or {}
    stored = plan.get("files", files)
    rewritten = [
        name
        for relid, name in names.items()
        if relid not in truncated and str(stored.get(str(relid))) != files.get(str(relid))
    ]
    settings = runtime.settings
    forced = settings.force_full_refresh and stream_table.refresh_mode is RefreshMode.AUTO
    facts = Facts(
        stream_table=stream_table,
        frontier=snapshot.frontier,
        changed_rows={names[one.relid]: one.rows for one in changes if one.rows},
        touched_rows=sum(one.touched for one in changes),
        truncated=tuple(names[relid] for relid in sorted(truncated)),
        rewritten=tuple(rewritten),
        polled=tuple(
            str(one.source)
            for one in polled(dependencies)
            if plan.get("rows", {}).get(str(one.source_relid)) != rows[str(one.source_relid)]
        ),
        source_rows=0.0,
        refusal=str(compiled.refusal) if compiled.refusal else None,
        reshaped=reshaped,
        time_dependent=compiled.binding.time_dependent,
        requested_full=requested_full or forced,
        max_change_ratio=_max_change_ratio(settings, stream_table),
        gaps=list_capture_gaps(buffers.connection, stream_table.id),
    )
    changed = {str(one.relid): one.rows for one in changes if one.rows}
    if priced and decide(facts).action is not Action.NO_DATA:
        follows = changed and not truncated and not rewritten and not facts.polled
        follows = follows and not facts.gaps and compiled.refusal is None
        forecast, statistics = make_forecast(
            runtime,
            stream_table,
            snapshot.connection,
            compiled,
            list(names),
            changed if follows else None,
        )
        facts = replace(facts, forecast=forecast, source_rows=statistics.source_rows)
    return Findings(facts, frozenset(changed), {"files": files, "rows": rows})


def _max_change_ratio(settings: Settings, stream_table: StreamTable) -> float:
    own = stream_table.max_delta_fraction
    return settings.differential_max_change_ratio if own is None else own


def captured(dependencies: Sequence[Dependency]) -> list[Dependency]:
    """Return the dependencies that have a change buffer."""
    return [one for one in dependencies if one.source_type in _CAPTURED]


def polled(dependencies: Sequence[Dependency]) -> list[Dependency]:
    """Return the dependencies that have none, and are no views either, which are inlined."""
    return [one for one in dependencies if one.source_type in _POLLED]


def _changes(
    stream_table: StreamTable, snapshot: Snapshot, buffers: BufferView, relids: list[int]
) -> list[SourceChanges]:
    """Return the changes since the stream table's frontier, if that can still be compared."""
    frontier = stream_table.frontier
    if frontier is None or not frontier.same_database(snapshot.frontier):
        return []
    windows = [(relid, frontier.snapshot) for relid in relids]
    return changed_sources(buffers.connection, windows, buffers.upper)
