"""``pgtrickle subscribe [NAME...]``: print what refreshes change, and alerts, as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, print_text, stderr
from pgtrickle.model.text.printable import printable_line

if TYPE_CHECKING:  # takes longer to import than --help should
    from pgtrickle.service.insight.channels import Notice

_CTRL_C = 0  # the way to end it


def subscribe(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Stream tables; all if left out."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0, help="End after this many seconds; default: run until Ctrl-C."),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Print each refresh that changes something, and each alert, as it happens, until Ctrl-C.

    With --json each is one line. Needs a connection to PostgreSQL itself, not to a pooler.
    """
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        try:
            for notice in trickle.follow(names or (), listening=_tell, seconds=seconds):
                if as_json:
                    document = {"channel": notice.channel, "heard_at": notice.heard_at.isoformat()}
                    print_json(document | {"payload": notice.payload}, indent=None)
                else:
                    print_text(printable_line(_describe(notice)))
        except KeyboardInterrupt:
            raise typer.Exit(_CTRL_C) from None


def _tell() -> None:
    stderr().print("listening; Ctrl-C ends")


def _describe(notice: Notice) -> str:
    told, moment = notice.payload, f"{notice.heard_at:%Y-%m-%d %H:%M:%S}"
    if {"action", "inserted_count", "deleted_count"} <= told.keys():
        rows = f"+{told['inserted_count']} -{told['deleted_count']}"
        return f"{moment} {notice.stream_table}: {told['action']} {rows}"
    facts = ", ".join(f"{key} {value}" for key, value in told.items() if key != "event")
    return f"{moment} {told.get('event', notice.channel)}: {facts}"
