"""``pgtrickle plan``: what applying a project would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.projects.options import Folder, Given, Target, read_variables, step_document
from pgtrickle.model.projects.plan import (
    ADOPT,
    ALTER,
    CREATE,
    DROP,
    QUIET,
    REBUILD,
    REFUSED,
    SHADOW,
    ProjectPlan,
    ProjectStep,
)
from pgtrickle.model.text.printable import printable_line

_SIGNS = {CREATE: "+", ALTER: "~", REBUILD: "~", SHADOW: "~", ADOPT: "=", DROP: "-", REFUSED: "!"}
_LONGEST = 60


def plan(
    ctx: typer.Context,
    folder: Folder = Path(),
    target: Target = None,
    variables: Given = None,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 1 if there is anything to do, for CI."),
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show what applying a project would create, alter and drop, at which cost; changes nothing."""
    given = read_variables(variables)
    with errors_as_exit_codes(ctx, as_json=as_json):
        with connected(ctx, dsn, new_server=True) as trickle, working("Planning"):
            found = trickle.projects.plan_project(folder, target=target, variables=given)
        if as_json:
            print_json(
                {
                    "project": found.project,
                    "target": found.target,
                    "schemas": list(found.schemas),
                    "pending": len(found.pending),
                    "steps": [step_document(one) for one in found.steps],
                }
            )
        else:
            for line in _lines(found):
                stdout().print(printable_line(line), markup=False)
        if found.refused or (exit_code and found.pending):
            raise typer.Exit(1)


def _lines(found: ProjectPlan) -> Iterator[str]:
    yield f"project {found.project}, target {found.target}"
    yield from (f"+ schema {one}" for one in found.schemas)
    for step in found.steps:
        if step.action not in QUIET:
            yield from _step_lines(step)
    counted = Counter(one.action for one in found.steps)
    yield ", ".join(f"{number} {action}" for action, number in counted.items()) or "nothing"


def _step_lines(step: ProjectStep) -> Iterator[str]:
    head = f"{_SIGNS[step.action]} {step.action} {step.name}"
    if step.file is not None:
        head += f"  ({step.file})"
    if step.estimate:
        head += f", about {step.estimate}"
    yield head
    if step.action == DROP:
        yield "    no file says it any more; apply drops it with --prune"
    if step.drifted:
        yield "    altered in the database since the project was applied"
    for one in step.changes:
        if one.field == "query":
            yield "    query: see pgtrickle diff"
        else:
            yield f"    {one.field}: {_short(one.before)} -> {_short(one.after)}"
    yield from (f"    lock: {one}" for one in step.locks)
    yield from (f"    note: {one}" for one in step.notes)
    for problem in step.problems:
        yield f"    {problem.code}: {problem}"
        yield from (f"      {line}" for line in problem.detail.splitlines())
        if problem.hint:
            yield f"      hint: {problem.hint}"


def _short(text: str | None) -> str:
    if text is None:
        return "nothing"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
