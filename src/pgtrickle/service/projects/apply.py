"""Apply a project: take the steps of its plan, one stream table after the other.

Each step is a verb that users have, so it takes effect as a whole or not at all, and is put on
record.  An application that was interrupted is completed by the next one: what agrees with the
files is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pgtrickle.catalog.definitions import alter_table, find_definition
from pgtrickle.catalog.projects.tables import record_applied
from pgtrickle.catalog.scheduling.service_levels import set_service_level
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import ProjectRefusedError
from pgtrickle.model.projects.plan import (
    ADOPT,
    ALTER,
    CREATE,
    DROP,
    QUIET,
    REBUILD,
    SHADOW,
    AppliedStep,
)
from pgtrickle.model.projects.project import Project
from pgtrickle.model.stream_table import InitiatedBy
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.options.changes import Changes, read_options
from pgtrickle.service.lifecycle.alter import alter_stream_table
from pgtrickle.service.lifecycle.create import create_stream_table
from pgtrickle.service.lifecycle.definitions.compare import Difference
from pgtrickle.service.lifecycle.drop import drop_stream_table
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.projects.compare import compare_with_database, describe_test
from pgtrickle.service.projects.plan import Planned, Planning, applied_of, plan_project
from pgtrickle.service.refreshing.dispatch import refresh_when_free
from pgtrickle.service.runtime import Runtime

Tell = Callable[[AppliedStep], object]
KEPT = "kept"  # what nobody asked to drop
_DONE = {
    CREATE: "created",
    ALTER: "altered",
    REBUILD: "rebuilt",
    SHADOW: "shadow begun",
    ADOPT: "adopted",
    DROP: "dropped",
}


def apply_project(
    runtime: Runtime, project: Project, tell: Tell, *, prune: bool = False
) -> list[AppliedStep]:
    """Make the database what the files say; ``tell`` is called after each stream table.

    Raises ST507 before anything is changed if a step is refused.  What no file says any more is
    dropped only with ``prune``.
    """
    planning = plan_project(runtime, project)
    _refuse(planning)
    _make_schemas(runtime, planning)
    done = []
    for planned in planning.steps:
        step, began = planned.step, time.monotonic()
        if step.action == DROP and not prune:
            done.append(AppliedStep(step.name, KEPT))
        elif step.action in QUIET:
            done.append(AppliedStep(step.name, step.action))
            continue  # of what is as it should be, nothing is told
        else:
            _take(runtime, project, planned)
            took = (time.monotonic() - began) * 1000
            done.append(AppliedStep(step.name, _DONE[step.action], round(took, 1)))
        tell(done[-1])
    return done


def _refuse(planning: Planning) -> None:
    refused = planning.shown.refused
    if not refused:
        return
    lines = [
        f"{one.name}: {problem.code} {problem}" + (f" ({problem.detail})" if problem.detail else "")
        for one in refused
        for problem in one.problems
    ]
    raise ProjectRefusedError(
        f"{len(refused)} stream tables of the project cannot be applied",
        detail="\n".join(lines[:100]),
        hint=refused[0].problems[0].hint
        or "Nothing was changed. Correct the files, and try again.",
    )


def _make_schemas(runtime: Runtime, planning: Planning) -> None:
    with runtime.connection() as connection:
        for schema in planning.schemas:
            connection.execute(trusted(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(schema)}"))


def _take(runtime: Runtime, project: Project, planned: Planned) -> None:
    step, table = planned.step, planned.table
    if step.action == DROP:
        drop_stream_table(runtime, step.name, cascade=False)
        return
    if table is None or planned.wanted is None:
        return
    if step.action == CREATE:
        options = read_options({**table.options, "initialize": table.initialize})
        create_stream_table(
            runtime, table.name, table.query, options, search_path=table.search_path
        )
    elif step.action in {ALTER, REBUILD, SHADOW} and planned.difference is not None:
        _alter(runtime, planned, planned.difference)
    with runtime.connection() as connection:
        found = find_definition(connection, table.name)
        stream_table = get_stream_table(connection, table.name)
        check_owner(connection, stream_table)
        rest = Difference() if found is None else compare_with_database(planned.wanted, found)
        if rest.table:
            until_free(
                runtime,
                connection,
                lambda: alter_table(connection, table.name, "table", rest.table, rest.removed),
            )
        if rest.sla_s is not None:
            set_service_level(connection, stream_table.id, rest.sla_s)
        record_applied(
            connection,
            stream_table.id,
            project=project.name,
            target=project.target,
            file=table.file,
            owner=table.owner,
            tags=table.tags,
            tests=[describe_test(one) for one in table.tests],
            search_path=table.search_path,
            applied=applied_of(project, table, planned.wanted),
        )


def _alter(runtime: Runtime, planned: Planned, difference: Difference) -> None:
    table, changes = planned.table, difference.options
    assert table is not None  # noqa: S101 - for the type checker
    query, path = (table.query if difference.query else None), table.search_path
    if planned.step.action == SHADOW:
        # It takes no other options with it, but for the mode.
        of_shadow = {name: one for name, one in changes.values().items() if name == "refresh_mode"}
        others = changes.without("refresh_mode")
        if others:
            alter_stream_table(runtime, table.name, others)
        changes = Changes().having(**of_shadow, shadow_build=True)
    if query is not None and table.allow_breaking:
        changes = changes.having(allow_breaking=True)
    if changes or query is not None:
        alter_stream_table(runtime, table.name, changes, query=query, search_path=path)
    if difference.load:
        refresh_when_free(runtime, table.name, initiated_by=InitiatedBy.INITIAL)
