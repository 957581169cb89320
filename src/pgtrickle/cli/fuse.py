"""``pgtrickle fuse``: stop before a mass change, and decide what becomes of it."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.session import connected
from pgtrickle.model.fuse import FuseMode

fuse = typer.Typer(no_args_is_help=True, help="Stop before a sudden mass change.")


@fuse.command("set")
def set_(
    ctx: typer.Context,
    name: Name,
    mode: Annotated[
        FuseMode, typer.Argument(case_sensitive=False, help="off, on: by its ceiling, or auto.")
    ],
    ceiling: Annotated[
        int | None, typer.Option(min=1, help="Changed rows above which it blows.")
    ] = None,
    sensitivity: Annotated[
        float | None, typer.Option(help="With auto: how many times what is usual, above 1.")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Give a stream table a fuse."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.set_fuse(name, mode, ceiling=ceiling, sensitivity=sensitivity)
        if as_json:
            print_json({"stream_table": name, "fuse": mode.value})
        else:
            stdout().print(f"{name}: fuse {mode.value}", markup=False)


@fuse.command()
def reset(
    ctx: typer.Context,
    name: Name,
    reinitialize: Annotated[
        bool, typer.Option("--reinitialize", help="Start anew in place of applying the change.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let the next refresh pass after a fuse has blown."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.reset_fuse(name, reinitialize=reinitialize)
        action = "reinitialize" if reinitialize else "apply"
        if as_json:
            print_json({"stream_table": name, "action": action})
        else:
            stdout().print(f"{name}: the next refresh will {action}", markup=False)
