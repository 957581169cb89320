"""``pgtrickle diff``: how stream tables differ from the files of a project, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, print_text, stdout, working
from pgtrickle.cli.projects.options import Folder, Given, Target, change_documents, read_variables


def diff(
    ctx: typer.Context,
    folder: Folder = Path(),
    target: Target = None,
    variables: Given = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if anything differs, for CI.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show how stream tables differ from their files: - is the database, + the file."""
    given = read_variables(variables)
    with errors_as_exit_codes(ctx, as_json=as_json):
        with connected(ctx, dsn, new_server=True) as trickle, working("Comparing"):
            found = trickle.projects.diff_project(folder, target=target, variables=given)
        if as_json:
            print_json(
                {
                    "differences": [
                        {
                            "name": str(one.name),
                            "action": one.action,
                            "drifted": one.drifted,
                            "changes": change_documents(one.changes),
                        }
                        for one in found
                    ]
                }
            )
        elif found:
            print_text("\n".join(one.text for one in found))
        else:
            stdout().print("no difference", markup=False)
        if exit_code and found:
            raise typer.Exit(1)
