"""``pgtrickle group``: refresh stream tables at one moment that do not read one another."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout
from pgtrickle.model.scheduling.refresh_group import DEFAULT_ISOLATION, Isolation

group = typer.Typer(no_args_is_help=True, help="Refresh stream tables at one moment.")

GroupName = Annotated[str, typer.Argument(help="Name of the refresh group.", show_default=False)]


@group.command("list")
def list_groups(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the refresh groups and their members."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.scheduler.refresh_groups()
        if as_json:
            print_json({"groups": [values_document(one) for one in found]})
            return
        if not found:
            stdout().print("no refresh groups")
            return
        listing = plain_table("group", "isolation", "members")
        for one in found:
            listing.add_row(one.group_name, one.isolation, ", ".join(one.members))
        stdout().print(listing)


@group.command()
def create(
    ctx: typer.Context,
    name: GroupName,
    members: Annotated[list[str], typer.Argument(metavar="NAME NAME...", help="Stream tables.")],
    isolation: Annotated[
        Isolation,
        typer.Option(case_sensitive=False, help="repeatable_read: one moment, one commit."),
    ] = DEFAULT_ISOLATION,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Put stream tables into a group; each can belong to one group."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.create_refresh_group(name, members, isolation.value)
        if as_json:
            print_json({"group": name, "members": members, "isolation": isolation.value})
        else:
            stdout().print(f"{name}: {', '.join(members)} ({isolation.value})", markup=False)


@group.command()
def drop(ctx: typer.Context, name: GroupName, dsn: Dsn = None, as_json: Json = False) -> None:
    """Drop a refresh group; its members stay."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.scheduler.drop_refresh_group(name)
        if as_json:
            print_json({"dropped": name})
        else:
            stdout().print(f"{name}: dropped", markup=False)
