"""``pgtrickle cdc``: look after the capture of changes."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working

cdc = typer.Typer(no_args_is_help=True, help="Check and control the capture of changes.")

Sources = Annotated[
    list[str] | None, typer.Argument(metavar="[SOURCE]...", help="Source tables; default: all.")
]


class Durability(Enum):
    """How much of a change buffer survives a crash of the server."""

    UNLOGGED = "unlogged"
    LOGGED = "logged"
    SYNC = "sync"


@cdc.command()
def health(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show every captured source and the problems of its capture; exit 1 if there are any."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.capture.check_cdc_health()
        if as_json:
            print_json({"sources": [asdict(one) for one in found]})
        for one in [] if as_json else found:
            stdout().print(
                f"{one.source}: {one.alert or 'ok'} ({one.durability},"
                f" {one.buffer_bytes} bytes, {one.consumers} stream tables)",
                markup=False,
            )
        if any(one.alert for one in found):
            raise typer.Exit(1)


@cdc.command()
def pause(
    ctx: typer.Context, sources: Sources = None, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Stop capturing changes, for every session, until resumed."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        _tell("paused", trickle.capture.pause_cdc(*sources or ()), as_json=as_json)


@cdc.command()
def resume(
    ctx: typer.Context, sources: Sources = None, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Capture changes again; the next refresh reloads the stream tables."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working("Waiting for writers"):
            resumed = trickle.capture.resume_cdc(*sources or ())
        _tell("resumed", resumed, as_json=as_json)


@cdc.command()
def rebuild(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Create the capture triggers of every source again."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working("Waiting for writers"):
            mended = trickle.capture.rebuild_cdc_triggers()
        if as_json:
            print_json({"mended": [asdict(one) for one in mended]})
        for one in [] if as_json else mended:
            stdout().print(f"{one.source}: {one.what}", markup=False)


@cdc.command()
def durability(
    ctx: typer.Context,
    durability: Annotated[Durability, typer.Argument(help="What a crash leaves.")],
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Change how change buffers are stored."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working("Waiting for writers"):
            changed = trickle.capture.set_buffer_durability(durability.value)
        _tell(durability.value, changed, as_json=as_json)


def _tell(what: str, sources: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({what: sources})
        return
    for source in sources:
        stdout().print(f"{source}: {what}", markup=False)
