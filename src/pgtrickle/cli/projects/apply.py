"""``pgtrickle apply``: let the database be what the files of a project say."""

from __future__ import annotations

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
    from pgtrickle.model.projects.plan import AppliedStep


def apply(
    ctx: typer.Context,
    folder: Folder = Path(),
    target: Target = None,
    variables: Given = None,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Drop the stream tables that no file says any more."),
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Create and alter what differs from the files; repeat it after an interruption.

    The work is done in this process, also beside a daemon.
    """
    given = read_variables(variables)

    def tell(one: AppliedStep) -> None:
        if not as_json:
            stdout().print(printable_line(f"{one.name}: {one.status}"), markup=False)

    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn, new_server=True) as trickle,
    ):
        with showing_progress(trickle, f"Applying {folder}"):
            done = trickle.projects.apply_project(
                folder, target=target, variables=given, prune=prune, tell=tell
            )
        changed = [one for one in done if one.status not in {"unchanged", "building"}]
        if as_json:
            steps = [
                {"name": str(one.name), "status": one.status, "duration_ms": one.duration_ms}
                for one in done
            ]
            print_json({"changed": len(changed), "steps": steps})
        elif not changed:
            stdout().print("nothing to do", markup=False)
