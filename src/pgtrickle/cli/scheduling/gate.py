"""``pgtrickle gate``: hold back the consumers of a source while it is being loaded."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.moments import ago
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout

gate = typer.Typer(
    no_args_is_help=True, help="Hold back the consumers of a source while it is being loaded."
)

Sources = Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Source tables.")]


@gate.command("list")
def list_gates(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the sources that are or were gated, since when, and their consumers."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.scheduler.bootstrap_gate_status()
        if as_json:
            print_json({"gates": [values_document(one) for one in found]})
            return
        if not found:
            stdout().print("no gates")
            return
        listing = plain_table("source", "gate", "since", "by", "holds back")
        for one in found:
            listing.add_row(
                one.source_table,
                "closed" if one.gated else "open",
                ago(one.gated_at if one.gated else one.ungated_at),
                one.gated_by,
                ", ".join(one.affected_stream_tables) if one.gated else "",
            )
        stdout().print(listing)


@gate.command()
def close(ctx: typer.Context, sources: Sources, dsn: Dsn = None, as_json: Json = False) -> None:
    """Hold back the consumers of these sources."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        for source in sources:
            trickle.scheduler.gate_source(source)
        _tell("gated", sources, as_json=as_json)


@gate.command("open")
def open_(ctx: typer.Context, sources: Sources, dsn: Dsn = None, as_json: Json = False) -> None:
    """Release the consumers of these sources."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        for source in sources:
            trickle.scheduler.ungate_source(source)
        _tell("ungated", sources, as_json=as_json)


def _tell(what: str, sources: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({what: sources})
        return
    for source in sources:
        stdout().print(f"{source}: {what}", markup=False)
