"""``pgtrickle errors NAME``: what went wrong lately, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict

import typer

from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.session import connected


def errors(ctx: typer.Context, name: Name, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the latest errors of a stream table, what they mean and what to do."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.diagnose_errors(name)
        if as_json:
            print_json([asdict(one) | {"event_time": one.event_time.isoformat()} for one in found])
            return
        for one in found:
            stdout().print(
                f"{one.event_time:%Y-%m-%d %H:%M:%S} {one.error_code}: {one.error_message}\n"
                f"  {one.meaning}\n  {one.remedy}",
                markup=False,
            )
        if not found:
            stdout().print("no errors")
