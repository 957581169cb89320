"""``pgtrickle demo``: a small shop whose stream tables maintain themselves."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.options import Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stderr, stdout
from pgtrickle.cli.setup import Setup


def demo(
    ctx: typer.Context,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="How long to make changes.")] = 20,
    orders: Annotated[int, typer.Option(min=1000, help="How many orders to begin with.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Makes the changes repeatable.")] = 1,
    as_json: Json = False,
) -> None:
    """Run a small shop on an embedded server, keep three stream tables fresh and verify them.

    Needs nothing but Java, and ends by itself. Exits 1 if a stream table differs from
    PostgreSQL's own answer.
    """
    from pgtrickle.demo.main import run_demo  # noqa: PLC0415 - takes longer than --help should

    # Progress belongs to people: with --json it goes to standard error.
    console = stderr() if as_json else stdout()
    with errors_as_exit_codes(ctx, as_json=as_json):
        summary = run_demo(
            ctx.ensure_object(Setup).connect,
            seconds=seconds,
            orders=orders,
            seed=seed,
            console=console,
        )
        if as_json:
            print_json(summary.to_json())
        if not summary.ok:
            raise typer.Exit(1)
