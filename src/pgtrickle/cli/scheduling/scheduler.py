"""``pgtrickle scheduler``: pause and resume stream tables, drain the scheduler."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working

scheduler = typer.Typer(no_args_is_help=True, help="Pause the scheduler, and resume it.")

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Stream tables.")]


@scheduler.command()
def holds(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the stream tables that the scheduler does not refresh, and why."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.scheduler.list_holds()
        if as_json:
            print_json({"holds": [asdict(one) for one in found]})
            return
        for one in found:
            stdout().print(f"{one.stream_table}: {one.reason}", markup=False)
        if not found:
            stdout().print("nothing is held back")


@scheduler.command()
def behind(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the stream tables whose refreshes take longer than their intervals."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.scheduler.falling_behind()
        if as_json:
            print_json({"falling_behind": [values_document(one) for one in found]})
            return
        for one in found:
            every = f"schedule {one.schedule}, now every {one.effective_interval_seconds:g} s"
            told = f"{one.stream_table}: took {one.took_seconds:.1f} s, {every}"
            stdout().print(told, markup=False)
        if not found:
            stdout().print("every stream table keeps up with its schedule")


@scheduler.command()
def pause(ctx: typer.Context, names: Names, dsn: Dsn = None, as_json: Json = False) -> None:
    """Hold back stream tables; running refreshes finish."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.pause_scheduler(*names)
        _tell("paused", names, as_json=as_json)


@scheduler.command()
def resume(ctx: typer.Context, names: Names, dsn: Dsn = None, as_json: Json = False) -> None:
    """Release stream tables that were paused."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.resume_scheduler(*names)
        _tell("resumed", names, as_json=as_json)


@scheduler.command()
def drain(
    ctx: typer.Context,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 60,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Start no more refreshes and wait for the running ones; exit 1 on timeout."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working("Waiting for the refreshes in flight"):
            drained = trickle.scheduler.drain(timeout)
        if as_json:
            print_json({"drained": drained})
        else:
            stdout().print("drained" if drained else "refreshes are still in flight")
        if not drained:
            raise typer.Exit(1)


@scheduler.command()
def undrain(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Let the scheduler start refreshes again after a drain."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.undrain()
        if as_json:
            print_json({"drained": False})
        else:
            stdout().print("no longer drained")


@scheduler.command()
def quiesce(
    ctx: typer.Context,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 60,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Start no more refreshes, wait for the running ones and say which are left; then exit 1."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working("Waiting for the refreshes in flight"):
            found = trickle.scheduler.quiesce(timeout)
        if as_json:
            print_json(values_document(found))
        else:
            for one in found.left:
                since = f"since {one.running_since:%Y-%m-%d %H:%M:%S %Z}"
                stdout().print(f"{one.stream_table}: {since}, by {one.daemon}", markup=False)
            stdout().print("quiet" if found.quiet else "refreshes are still in flight")
        if not found.quiet:
            raise typer.Exit(1)


@scheduler.command("resume-all")
def resume_all(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """End the drain and every pause."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        _tell("resumed", trickle.scheduler.resume_all(), as_json=as_json)


def _tell(what: str, names: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({what: names})
        return
    for name in names:
        stdout().print(f"{name}: {what}", markup=False)
