"""``pgtrickle group``: refresh stream tables at one moment that do not read one another."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.session import connected

group = typer.Typer(no_args_is_help=True, help="Refresh stream tables at one moment.")

GroupName = Annotated[str, typer.Argument(help="Name of the refresh group.", show_default=False)]


class Isolation(Enum):
    """What the members of a group see of their sources."""

    READ_COMMITTED = "read_committed"
    REPEATABLE_READ = "repeatable_read"


@group.command()
def create(
    ctx: typer.Context,
    name: GroupName,
    members: Annotated[list[str], typer.Argument(metavar="NAME NAME...", help="Stream tables.")],
    isolation: Annotated[
        Isolation,
        typer.Option(case_sensitive=False, help="repeatable_read: one moment, one commit."),
    ] = Isolation.REPEATABLE_READ,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Put stream tables into a group; each belongs to one at most."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.create_refresh_group(name, members, isolation.value)
        if as_json:
            print_json({"group": name, "members": members, "isolation": isolation.value})
        else:
            stdout().print(f"{name}: {', '.join(members)} ({isolation.value})", markup=False)


@group.command()
def drop(ctx: typer.Context, name: GroupName, dsn: Dsn = None, as_json: Json = False) -> None:
    """Forget a refresh group; its members stay."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.drop_refresh_group(name)
        if as_json:
            print_json({"dropped": name})
        else:
            stdout().print(f"{name}: dropped", markup=False)
