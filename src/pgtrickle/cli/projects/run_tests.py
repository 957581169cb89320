"""``pgtrickle test``: whether the rows of stream tables are as the files of a project say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.progress import showing_progress
from pgtrickle.cli.projects.options import Folder, Given, Target, read_variables
from pgtrickle.model.text.printable import printable_line

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle.model.projects.findings import ProjectTestResult

_SHOWN = 3


def run_tests(
    ctx: typer.Context,
    folder: Folder = Path(),
    target: Target = None,
    variables: Given = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--select", "-s", metavar="NAME", help="Stream table; may be repeated."),
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Bring each up to date before its tests.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds after which a test has failed.")
    ] = 300,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Run the tests of a project; exits with 1 if one fails, not if it only warns."""
    given = read_variables(variables)

    def tell(one: ProjectTestResult) -> None:
        if not as_json:
            for line in _lines(one):
                stdout().print(printable_line(line), markup=False)

    with errors_as_exit_codes(ctx, as_json=as_json):
        with connected(ctx, dsn) as trickle, showing_progress(trickle, f"Testing {folder}"):
            found = trickle.projects.test_project(
                folder,
                names=names or (),
                target=target,
                variables=given,
                refresh=refresh,
                longest=timedelta(seconds=seconds),
                tell=tell,
            )
        counted = Counter(one.status for one in found)
        if as_json:
            print_json(
                {
                    **{status: counted[status] for status in ("pass", "warn", "fail")},
                    "tests": [_document(one) for one in found],
                }
            )
        else:
            parts = [f"{number} {status}" for status, number in counted.items()]
            stdout().print(", ".join(parts) or "the project has no tests", markup=False)
        if counted["fail"]:
            raise typer.Exit(1)


def _lines(one: ProjectTestResult) -> Iterator[str]:
    head = f"{one.status} {one.stream_table} {one.test}"
    if one.rows:
        head += f": {one.rows} row{'' if one.rows == 1 else 's'}"
    if one.problem is not None:
        head += f": {one.problem}"
    yield head
    for row in one.sample[:_SHOWN]:
        yield f"    {json.dumps(dict(row), ensure_ascii=False)}"


def _document(one: ProjectTestResult) -> dict[str, object]:
    return {
        "stream_table": str(one.stream_table),
        "test": one.test,
        "status": one.status,
        "rows": one.rows,
        "sample": [dict(row) for row in one.sample],
        "query": one.query,
        "problem": one.problem,
        "duration_ms": one.duration_ms,
    }
