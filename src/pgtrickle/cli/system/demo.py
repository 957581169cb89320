"""``pgtrickle demo``: stream tables that maintain themselves, to look at."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from pgtrickle.cli.options import Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stderr, stdout
from pgtrickle.cli.setup import Setup


class DemoName(Enum):
    """The demos."""

    SHOP = "shop"
    LEADERBOARD = "leaderboard"
    AUCTION = "auction"
    LOOP = "loop"
    SNAPSHOT = "snapshot"


def demo(
    ctx: typer.Context,
    name: Annotated[
        DemoName,
        typer.Argument(
            help="shop; leaderboard: the best of 10,000 players, also on a page; auction: Nexmark;"
            " loop: into a lake and back; snapshot: take, lose, restore, verify."
        ),
    ] = DemoName.SHOP,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, max=3600, help="How long to make changes; 20, snapshot: 5."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", "--orders", min=1000, help="How many orders, games or bids to begin with."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes the changes repeatable.")] = 1,
    as_json: Json = False,
) -> None:
    """Run a small show on an embedded server: changing rows, stream tables that follow, a check.

    Needs nothing but Java, and ends by itself. Exits 1 if a stream table differs from
    PostgreSQL's own answer.
    """
    from pgtrickle.demo.main import run_demo  # noqa: PLC0415 - takes longer than --help should

    # Progress belongs to people: with --json it goes to standard error.
    console = stderr() if as_json else stdout()
    with errors_as_exit_codes(ctx, as_json=as_json):
        summary = run_demo(
            ctx.ensure_object(Setup).connect,
            name.value,
            seconds=seconds,
            size=rows,
            seed=seed,
            console=console,
        )
        if as_json:
            print_json(summary.to_json())
        if not summary.ok:
            raise typer.Exit(1)
