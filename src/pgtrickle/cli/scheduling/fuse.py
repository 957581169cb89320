"""``pgtrickle fuse``: stop before a mass change, and decide what becomes of it."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout
from pgtrickle.model.scheduling.fuse import FuseMode

fuse = typer.Typer(no_args_is_help=True, help="Stop before a sudden mass change.")


@fuse.command()
def status(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the fuse of each stream table: armed, blown and why, bridged or disabled."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.scheduler.fuse_status()
        if as_json:
            print_json({"fuses": [values_document(one) for one in found]})
            return
        if not found:
            stdout().print("no stream tables")
            return
        listing = plain_table("stream table", "fuse", "state", "ceiling", "sensitivity", "why")
        for one in found:
            listing.add_row(
                one.stream_table,
                one.fuse_mode,
                one.fuse_state,
                "" if one.fuse_ceiling is None else f"{one.fuse_ceiling:,}",
                "" if one.fuse_sensitivity is None else f"{one.fuse_sensitivity:g}",
                one.blow_reason or "",
            )
        stdout().print(listing)


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
        float | None,
        typer.Option(
            help="With auto: blow above this multiple of the usual number; greater than 1."
        ),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Give a stream table a fuse."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.set_fuse(name, mode, ceiling=ceiling, sensitivity=sensitivity)
        if as_json:
            print_json({"stream_table": name, "fuse": mode.value})
        else:
            stdout().print(f"{name}: fuse {mode.value}", markup=False)


@fuse.command()
def reset(
    ctx: typer.Context,
    name: Name,
    reinitialize: Annotated[
        bool,
        typer.Option(
            "--reinitialize", help="Reload the stream table instead of applying the change."
        ),
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let the next refresh apply the change that blew the fuse."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.reset_fuse(name, reinitialize=reinitialize)
        action = "reinitialize" if reinitialize else "apply"
        if as_json:
            print_json({"stream_table": name, "action": action})
        else:
            stdout().print(f"{name}: the next refresh will {action}", markup=False)
