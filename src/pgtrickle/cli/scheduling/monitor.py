"""``pgtrickle monitor``: stream tables over the history of refreshes."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout

monitor = typer.Typer(
    no_args_is_help=True, help="Keep stream tables over the history of refreshes."
)


@monitor.command()
def setup(
    ctx: typer.Context,
    schedule: Annotated[str, typer.Option(help="How often they are refreshed.")] = "1m",
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Create the stream tables of self-monitoring that are missing."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        _tell("stream_tables", trickle.insight.setup_self_monitoring(schedule), as_json=as_json)


@monitor.command()
def teardown(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Drop the stream tables of self-monitoring."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        _tell("dropped", trickle.insight.teardown_self_monitoring(), as_json=as_json)


@monitor.command()
def status(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the stream tables of self-monitoring, and how they are doing."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.insight.self_monitoring_status()
    if as_json:
        print_json({"parts": [values_document(one) for one in found]})
        return
    if not found:
        stdout().print("no self-monitoring; begin it with: pgtrickle monitor setup")
        return
    table = plain_table("part", "stream table", "status", "schedule", "refreshed")
    for one in found:
        refreshed = (
            "" if one.last_refresh_at is None else f"{one.last_refresh_at:%Y-%m-%d %H:%M:%S}"
        )
        status_ = f"{one.status}, failing" if one.failing else one.status
        table.add_row(one.part, one.stream_table, status_, one.schedule, refreshed)
    stdout().print(table)


def _tell(what: str, names: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({what: names})
    else:
        stdout().print("\n".join(names) or "nothing to do", markup=False)
