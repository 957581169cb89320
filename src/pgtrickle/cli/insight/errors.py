"""``pgtrickle errors NAME``: what went wrong lately, and what to do about it."""

from __future__ import annotations

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout


def errors(ctx: typer.Context, name: Name, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the latest errors of a stream table, what they mean and what to do."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.insight.diagnose_errors(name)
        if as_json:
            print_json({"errors": [values_document(one) for one in found]})
            return
        for one in found:
            stdout().print(
                f"{one.event_time:%Y-%m-%d %H:%M:%S} {one.error_code}: {one.error_message}\n"
                f"  {one.meaning}\n  {one.remedy}",
                markup=False,
            )
        if not found:
            stdout().print("no errors")
