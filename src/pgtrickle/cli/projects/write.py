"""``pgtrickle import`` and ``pgtrickle init-project``: write the files of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.model.text.printable import printable_line

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle.model.projects.findings import WrittenProject


def import_(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="New folder to write.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Stream tables; default: all of the database."),
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", help="Name of the project; default: the folder's.")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Write the stream tables of a database as the files of a project."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working("Reading the definitions"):
            written = trickle.projects.import_project(folder, project=project, names=names or ())
        _tell(written, as_json=as_json)


def init_project(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder to write the example into.")] = Path(),
    sample_data: Annotated[
        bool, typer.Option("--sample-data", help="Also make the tables that the example reads.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Write a small project that runs, to begin with."""
    with errors_as_exit_codes(ctx, as_json=as_json):
        if sample_data:
            with connected(ctx, dsn, new_server=True) as trickle:
                written = trickle.projects.init_project(folder, sample_data=True)
        else:
            # Imported on first use, because that takes longer than --help should.
            from pgtrickle.service.projects.files.write_example import (  # noqa: PLC0415
                write_example,
            )

            written = write_example(folder)
        _tell(written, as_json=as_json)


def _tell(written: WrittenProject, *, as_json: bool) -> None:
    if as_json:
        notes, files = list(written.notes), list(written.files)
        print_json({"path": written.path, "files": files, "notes": notes})
        return
    for one in written.files:
        stdout().print(printable_line(f"{written.path}/{one}: written"), markup=False)
    for note in written.notes:
        stdout().print(printable_line(f"note: {note}"), markup=False)
