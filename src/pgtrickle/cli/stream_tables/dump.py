"""``pgtrickle dump`` and ``pgtrickle restore``: every definition of a database, in files."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, print_text, stdout, working
from pgtrickle.cli.progress import showing_progress
from pgtrickle.model.text.printable import printable_line

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle.model.definitions.dump import RestoredItem


class _Form(Enum):
    """The forms of a dump."""

    SQL = "sql"
    YAML = "yaml"


def dump(
    ctx: typer.Context,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File or directory to write; default: standard output."
        ),
    ] = None,
    form: Annotated[
        _Form | None,
        typer.Option(
            "--format",
            help="sql: a script for psql; yaml: what pgtrickle restore reads. Default: by the name"
            " of the file, else sql.",
        ),
    ] = None,
    per_table: Annotated[
        bool,
        typer.Option("--per-table", help="Write a directory with a file per definition."),
    ] = False,
    with_data: Annotated[
        bool,
        typer.Option("--with-data", help="Write a directory with the rows, too, in YAML."),
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Write every definition of a database, each after what it reads, at one moment."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working("Dumping the definitions"):
            written = trickle.definitions.dump_definitions(
                output,
                format=None if form is None else form.value,
                per_table=per_table,
                with_data=with_data,
            )
        if isinstance(written, str):
            if as_json:
                print_json({"text": written})
            else:
                print_text(written.rstrip("\n"))
        elif as_json:
            print_json(values_document(written))
        else:
            rows = "" if written.rows is None else f" and {written.rows} rows"
            number = len(written.stream_tables)
            counted = f"{number} definition{'' if number == 1 else 's'}"
            stdout().print(printable_line(f"{written.path}: {counted}{rows}"), markup=False)


def restore(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="Dump in YAML: a file, or a directory with dump.yaml.")
    ],
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Let what exists with another definition become what the dump says."
        ),
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Create what a dump has; repeat it after an interruption, and it goes on.

    The work is done in this process, also beside a daemon.
    """

    def tell(one: RestoredItem) -> None:
        if not as_json:
            rows = "" if one.rows is None else f" with {one.rows} rows"
            stdout().print(printable_line(f"{one.name}: {one.status}{rows}"), markup=False)

    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn, new_server=True) as trickle,
    ):
        with showing_progress(trickle, f"Restoring {file}"):
            done = trickle.definitions.restore_definitions(file, replace=replace, tell=tell)
        if as_json:
            print_json({"restored": [values_document(one) for one in done]})
        elif not done:
            stdout().print("the dump has no stream tables", markup=False)
