"""``pgtrickle watermark``: wait until sources are complete up to about the same moment."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.session import connected

watermark = typer.Typer(no_args_is_help=True, help="Wait until sources are equally complete.")

Group = Annotated[str, typer.Argument(help="Name of the watermark group.", show_default=False)]


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter("write it as 2026-01-31T18:00:00+00:00") from None
    if moment.tzinfo is None:
        raise typer.BadParameter("add a time zone, such as +00:00 at the end")
    return moment


@watermark.command()
def advance(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help="Source table.", show_default=False)],
    moment: Annotated[
        datetime,
        typer.Argument(parser=_moment, metavar="MOMENT", help="Up to when it is complete."),
    ],
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Say up to when a source is complete."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.advance_watermark(source, moment)
        if as_json:
            print_json({"source": source, "watermark": moment.isoformat()})
        else:
            stdout().print(f"{source}: complete up to {moment.isoformat()}", markup=False)


@watermark.command()
def group(
    ctx: typer.Context,
    name: Group,
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE SOURCE...")],
    tolerance: Annotated[
        float, typer.Option(min=0, help="Seconds by which they may be apart.")
    ] = 0,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let who reads several of these sources wait until their watermarks agree."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.create_watermark_group(name, sources, tolerance)
        if as_json:
            print_json({"group": name, "sources": sources, "tolerance_secs": tolerance})
        else:
            stdout().print(f"{name}: {', '.join(sources)}", markup=False)


@watermark.command()
def ungroup(ctx: typer.Context, name: Group, dsn: Dsn = None, as_json: Json = False) -> None:
    """Forget a watermark group."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.drop_watermark_group(name)
        if as_json:
            print_json({"dropped": name})
        else:
            stdout().print(f"{name}: dropped", markup=False)
