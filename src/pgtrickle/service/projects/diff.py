"""How the stream tables of a database differ from the files of a project, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from pgtrickle.model.projects.findings import ProjectDifference
from pgtrickle.model.projects.plan import CREATE, DROP, FieldChange, ProjectStep
from pgtrickle.model.projects.project import Project
from pgtrickle.service.projects.plan import Planned, plan_project
from pgtrickle.service.runtime import Runtime

_OF_LINES = frozenset({"query", "comment"})


def diff_project(runtime: Runtime, project: Project) -> list[ProjectDifference]:
    """Return what differs; the database is before, the file after."""
    found = []
    for planned in plan_project(runtime, project).steps:
        changes = tuple(_list_changes(planned))
        if changes:
            step = planned.step
            text = "\n".join(_write(step, changes))
            found.append(ProjectDifference(step.name, step.action, step.drifted, changes, text))
    return found


def _list_changes(planned: Planned) -> Iterator[FieldChange]:
    if planned.step.action == CREATE and planned.table is not None:
        yield FieldChange("query", None, planned.table.query)
    elif planned.step.action == DROP and planned.found is not None:
        yield FieldChange("query", planned.found.described["query"], None)
    else:
        yield from planned.step.changes


def _write(step: ProjectStep, changes: tuple[FieldChange, ...]) -> Iterator[str]:
    yield f"--- {step.name} in the database"
    yield f"+++ {step.file or 'in no file'}"
    if step.drifted:
        yield "# altered in the database since the project was applied"
    for one in changes:
        before, after = (
            [] if text is None else text.splitlines() for text in (one.before, one.after)
        )
        if one.field in _OF_LINES and len(before) + len(after) > 1:
            yield f"@@ {one.field} @@"
            yield from list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
            continue
        yield from (f"-{one.field}: {line}" for line in before)
        yield from (f"+{one.field}: {line}" for line in after)
