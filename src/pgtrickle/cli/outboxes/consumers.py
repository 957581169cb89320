"""``pgtrickle consumers``: groups of consumers of outboxes."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.model.text.printable import printable_line

consumers = typer.Typer(
    no_args_is_help=True,
    help="Create, move and drop groups of consumers of an outbox, and show how far they are.",
)
Group = Annotated[str, typer.Argument(metavar="GROUP", help="Consumer group.")]


@consumers.callback()
def main() -> None:
    """Create, move and drop groups of consumers of an outbox, and show how far they are."""


@consumers.command("create")
def create_group(
    ctx: typer.Context,
    group_name: Group,
    name: Name,
    earliest: Annotated[
        bool,
        typer.Option("--earliest", help="Begin with the oldest entry; else after the newest."),
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Create a group of consumers of the outbox of a stream table."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        begins = "earliest" if earliest else "latest"
        trickle.outbox.create_consumer_group(group_name, name, begins)
        if as_json:
            print_json({"group": group_name, "created": True})
        else:
            stdout().print(f"{group_name}: created", markup=False)


@consumers.command("drop")
def drop_group(
    ctx: typer.Context,
    group_name: Group,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if there is no such group.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Drop a consumer group; the outbox keeps nothing for it any more."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        dropped = trickle.outbox.drop_consumer_group(group_name, if_exists=if_exists)
        if as_json:
            print_json({"group": group_name, "dropped": dropped})
        else:
            stdout().print(f"{group_name}: {'dropped' if dropped else 'not there'}", markup=False)


@consumers.command("seek")
def seek(
    ctx: typer.Context,
    group_name: Group,
    outbox_id: Annotated[int, typer.Argument(metavar="ENTRY", help="Go on after this entry.")],
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let a consumer group go on after an entry, earlier or later."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.outbox.seek_offset(group_name, outbox_id)
        if as_json:
            print_json({"group": group_name, "committed_id": outbox_id})
        else:
            stdout().print(f"{group_name}: goes on after entry {outbox_id}", markup=False)


@consumers.command("lag")
def lag(
    ctx: typer.Context,
    group_name: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Consumer group; default: all.")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show how far your consumer groups are behind."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.outbox.consumer_lag(group_name)
        if as_json:
            print_json({"groups": [values_document(one) for one in found]})
            return
        for one in found:
            holder = f", {one.leased_to} has the next ones" if one.leased_to else ""
            stdout().print(
                printable_line(
                    f"{one.group_name} of {one.stream_table}: {one.lag_entries} entries behind"
                    f" ({one.lag_changes} changes, {one.lag_seconds:.1f} s){holder}"
                ),
                markup=False,
                soft_wrap=True,
            )
        if not found:
            stdout().print("no consumer groups", markup=False)
