"""``pgtrickle rename NAME NEW_NAME``: give a stream table another name or schema."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json, Local, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout


def rename(
    ctx: typer.Context,
    name: Name,
    new_name: Annotated[
        str,
        typer.Argument(
            help="Its new name; with a schema, as in sales.revenue, it moves there.",
            show_default=False,
        ),
    ],
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Rename a stream table; views and stream tables that read it follow."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        report = trickle.rename_stream_table(name, new_name)
        if as_json:
            print_json(
                {
                    "name": report.name,
                    "former_name": report.former_name,
                    "followed": list(report.followed),
                }
            )
            return
        stdout().print(f"{report.former_name}: renamed to {report.name}", markup=False)
        for one in report.followed:
            stdout().print(f"{one}: reads it by its new name", markup=False)
