"""``pgtrickle gate``: leave alone who reads a source while it is being loaded."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.session import connected

gate = typer.Typer(no_args_is_help=True, help="Hold back who reads a source that is being loaded.")

Sources = Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Source tables.")]


@gate.command()
def close(ctx: typer.Context, sources: Sources, dsn: Dsn = None, as_json: Json = False) -> None:
    """Let the scheduler leave alone who reads these sources."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        for source in sources:
            trickle.gate_source(source)
        _tell("gated", sources, as_json=as_json)


@gate.command("open")
def open_(ctx: typer.Context, sources: Sources, dsn: Dsn = None, as_json: Json = False) -> None:
    """Let the scheduler go on with who reads these sources."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        for source in sources:
            trickle.ungate_source(source)
        _tell("ungated", sources, as_json=as_json)


def _tell(what: str, sources: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({what: sources})
        return
    for source in sources:
        stdout().print(f"{source}: {what}", markup=False)
