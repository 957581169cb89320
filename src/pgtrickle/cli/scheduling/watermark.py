"""``pgtrickle watermark``: wait until sources are complete up to about the same moment."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout

watermark = typer.Typer(
    no_args_is_help=True, help="Hold back consumers until their sources are equally complete."
)

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
def status(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the watermarks of sources, and whether those of each group agree."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        marks, groups = trickle.scheduler.watermarks(), trickle.scheduler.watermark_status()
        if as_json:
            print_json(
                {
                    "watermarks": [values_document(one) for one in marks],
                    "groups": [values_document(one) for one in groups],
                }
            )
            return
        if not (marks or groups):
            stdout().print("no watermarks")
        if marks:
            listing = plain_table("source", "complete up to", "by")
            for one in marks:
                listing.add_row(one.source_table, one.watermark.isoformat(), one.advanced_by)
            stdout().print(listing)
        if groups:
            listing = plain_table("group", "apart", "tolerance", "", "sources")
            for each in groups:
                listing.add_row(
                    each.group_name,
                    "" if each.lag_secs is None else f"{each.lag_secs:g} s",
                    f"{each.tolerance_secs:g} s",
                    "in step" if each.aligned else "out of step",
                    ", ".join(each.sources),
                )
            stdout().print(listing)


@watermark.command()
def advance(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help="Source table.", show_default=False)],
    moment: Annotated[
        datetime,
        typer.Argument(
            parser=_moment, metavar="MOMENT", help="The moment up to which it is complete."
        ),
    ],
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Record the moment up to which a source is complete."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.advance_watermark(source, moment)
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
        float, typer.Option(min=0, help="Seconds by which the watermarks may differ.")
    ] = 0,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Hold back the consumers of several of these sources until the watermarks agree."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.create_watermark_group(name, sources, tolerance)
        if as_json:
            print_json({"group": name, "sources": sources, "tolerance_secs": tolerance})
        else:
            stdout().print(f"{name}: {', '.join(sources)}", markup=False)


@watermark.command()
def ungroup(ctx: typer.Context, name: Group, dsn: Dsn = None, as_json: Json = False) -> None:
    """Drop a watermark group."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.drop_watermark_group(name)
        if as_json:
            print_json({"dropped": name})
        else:
            stdout().print(f"{name}: dropped", markup=False)
