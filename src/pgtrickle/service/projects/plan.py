"""Plan what applying a project would do in a database; changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from pgtrickle.catalog.definitions import describe_database
from pgtrickle.catalog.projects.tables import (
    ProjectRecord,
    list_missing_schemas,
    list_records,
    list_taken,
    resolve_path,
)
from pgtrickle.catalog.shadows.builds import find_active_build
from pgtrickle.catalog.stream_tables import list_stream_tables
from pgtrickle.errors import ColumnsDifferError, NameTakenError, TrickleError
from pgtrickle.model.definitions.dump import STREAM_TABLE, Described
from pgtrickle.model.projects.plan import (
    ADOPT,
    ALTER,
    BUILDING,
    CREATE,
    DROP,
    REBUILD,
    REFUSED,
    SHADOW,
    UNCHANGED,
    FieldChange,
    ProjectPlan,
    ProjectStep,
)
from pgtrickle.model.projects.project import SHADOW as AS_SHADOW
from pgtrickle.model.projects.project import Project, ProjectTable
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lifecycle.definitions.compare import Difference
from pgtrickle.service.lifecycle.rename import follow_renames
from pgtrickle.service.projects.compare import (
    compare_with_database,
    describe_test,
    describe_wanted,
    list_changes,
)
from pgtrickle.service.projects.locks import list_locks
from pgtrickle.service.projects.rehearse import Rehearsal, Rehearsed, rehearsal
from pgtrickle.service.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Found:
    """A stream table as the database has it."""

    stream_table: StreamTable
    described: Described
    record: ProjectRecord | None
    building: bool  # another query is being loaded as a shadow


@dataclass(frozen=True, slots=True)
class Planned:
    """A step, and what is needed to take it."""

    step: ProjectStep
    table: ProjectTable | None = None  # None: it is to be dropped
    wanted: Mapping[str, Any] | None = None
    found: Found | None = None
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Planning:
    """A plan with what is needed to apply it."""

    project: Project
    steps: tuple[Planned, ...]
    schemas: tuple[str, ...]

    @property
    def shown(self) -> ProjectPlan:
        """The plan, as users see it."""
        steps = tuple(one.step for one in self.steps)
        return ProjectPlan(self.project.name, self.project.target, steps, self.schemas)


def plan_project(runtime: Runtime, project: Project) -> Planning:
    """Compare a project with the database, and compile what is new in it."""
    with runtime.connection() as connection:
        names = list_stream_tables(connection)
        if not connection.only_looks:  # the texts are to have the names of today
            follow_renames(runtime, [one.id for one in names])
        existing = list_existing(connection)
        search_path = resolve_path(connection, runtime.users_path(None))
        new = [one.name for one in project.tables if one.name not in existing]
        taken = list_taken(connection, new)
        schemas = list_missing_schemas(connection, [one.schema for one in new])
    steps: list[Planned] = []
    with rehearsal(runtime) as rehearsed:
        for table in project.tables:
            path = search_path
            if table.search_path is not None:
                path = resolve_path(rehearsed.connection, table.search_path)
            wanted = describe_wanted(table, path)
            found = existing.get(table.name)
            if found is not None:
                steps.append(_plan_existing(project, table, wanted, found, rehearsed))
            else:
                steps.append(_plan_new(table, wanted, taken, rehearsed))
    steps += _plan_drops(project, existing)
    return Planning(project, tuple(steps), tuple(schemas))


def list_existing(connection: Connection) -> dict[QualifiedName, Found]:
    """Return every stream table of the database, by name, in an order in which they can be made."""
    described, _, _ = describe_database(connection)
    tables = {one.name: one for one in list_stream_tables(connection)}
    records = list_records(connection)
    found = {}
    for item in described["items"]:
        table = tables.get(QualifiedName.parse(item["name"]))
        if item["kind"] == STREAM_TABLE and table is not None:
            building = find_active_build(connection, table.id) is not None
            found[table.name] = Found(table, item, records.get(table.id), building)
    return found


def applied_of(project: Project, table: ProjectTable, wanted: Described) -> dict[str, Any]:
    """Return what is put on record of a stream table that was applied."""
    said: dict[str, Any] = {
        "definition": {key: one for key, one in wanted.items() if key != "search_path"},
        "search_path": table.search_path,
        "owner": table.owner,
        "tags": list(table.tags),
        "tests": [describe_test(one) for one in table.tests],
        "file": table.file,
        "project": [project.name, project.target],
    }
    return dict(json.loads(json.dumps(said, default=str)))


def _plan_new(
    table: ProjectTable, wanted: Described, taken: set[QualifiedName], rehearsed: Rehearsal
) -> Planned:
    if table.name in taken:
        problem = NameTakenError(
            f'"{table.name}" exists and is no stream table',
            hint="Rename it or drop it, or give the stream table another name.",
        )
        return Planned(ProjectStep(table.name, REFUSED, table.file, problems=(problem,)), table)
    compiled = rehearsed.compile(table, None)
    step = ProjectStep(
        table.name,
        REFUSED if compiled.problems else CREATE,
        table.file,
        estimated_ms=compiled.estimated_ms if table.initialize else None,
        locks=list_locks(CREATE, table.name, compiled),
        notes=compiled.notes,
        problems=compiled.problems,
    )
    return Planned(step, table, wanted)


def _plan_existing(
    project: Project,
    table: ProjectTable,
    wanted: Described,
    found: Found,
    rehearsed: Rehearsal,
) -> Planned:
    record = found.record
    if record is not None and (record.project, record.target) != (project.name, project.target):
        problem = NameTakenError(
            f'"{table.name}" belongs to the project {record.project}, target {record.target}',
            hint="Give the stream table another name, or take it out of the other project and"
            " drop it there.",
        )
        return Planned(ProjectStep(table.name, REFUSED, table.file, problems=(problem,)), table)
    difference = compare_with_database(wanted, found.described)
    compiled = Rehearsed(another=False)
    if difference.query:
        compiled = rehearsed.compile(table, found.stream_table)
        difference.query = compiled.another
    changes = tuple(list_changes(wanted, found.described, difference))
    applied = applied_of(project, table, wanted)
    if record is not None and not changes and record.applied != applied:
        changes = tuple(_list_said(record.applied, applied))
    action, problems = _choose(table, found, difference, compiled, changes)
    step = ProjectStep(
        table.name,
        action,
        table.file,
        changes=changes,
        drifted=bool(changes) and record is not None and record.applied == applied,
        estimated_ms=compiled.estimated_ms if action in {REBUILD, SHADOW} else None,
        locks=list_locks(action, table.name, compiled) if action != REFUSED else (),
        notes=compiled.notes + _breaking_notes(compiled),
        problems=problems,
    )
    return Planned(step, table, wanted, found, difference)


def _choose(
    table: ProjectTable,
    found: Found,
    difference: Difference,
    compiled: Rehearsed,
    changes: tuple[FieldChange, ...],
) -> tuple[str, tuple[TrickleError, ...]]:
    if compiled.problems:
        return REFUSED, compiled.problems
    if found.building:
        return BUILDING, ()
    if difference.query:
        if compiled.breaking and not table.allow_breaking:
            problem = ColumnsDifferError(
                f'the new query of "{table.name}" changes columns that its readers may use',
                detail=compiled.breaking,
                hint="Keep names, types and order of the columns and put new ones last; or write"
                " allow_breaking: true into its file.",
            )
            return REFUSED, (problem,)
        return (SHADOW if table.on_change == AS_SHADOW else REBUILD), ()
    if changes:
        return ALTER, ()
    return (ADOPT if found.record is None else UNCHANGED), ()


def _breaking_notes(compiled: Rehearsed) -> tuple[str, ...]:
    return (f"breaks its readers: {compiled.breaking}",) if compiled.breaking else ()


def _list_said(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    """Yield what the file says that is on record only: its owner, tags and tests, its place."""
    for key in ("owner", "tags", "tests", "file"):
        if before.get(key) != after.get(key):
            yield FieldChange(key, _text(before.get(key)), _text(after.get(key)))


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return ", ".join(str(one["name"] if isinstance(one, dict) else one) for one in value)
    return None if value is None else str(value)


def _plan_drops(project: Project, existing: Mapping[QualifiedName, Found]) -> Iterator[Planned]:
    """Yield what no file says any more, each before what it reads."""
    said = {one.name for one in project.tables}
    own = (project.name, project.target)
    for name, found in reversed(list(existing.items())):
        record = found.record
        if record is not None and name not in said and (record.project, record.target) == own:
            locks = list_locks(DROP, name, Rehearsed())
            yield Planned(ProjectStep(name, DROP, None, locks=locks), found=found)
