"""``pgtrickle drop NAME``: remove a stream table and what maintains it."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json, Local, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout


def drop(
    ctx: typer.Context,
    name: Name,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also drop the stream tables and views that read it.")
    ] = False,
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Drop a stream table; its sources stay as they are."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        dropped = trickle.drop_stream_table(name, cascade=cascade)
        if as_json:
            print_json({"dropped": dropped})
        else:
            stdout().print("\n".join(f"{one}: dropped" for one in dropped), markup=False)
