"""``pgtrickle export NAME``: print the SQL that creates a stream table."""

from __future__ import annotations

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, print_text


def export(ctx: typer.Context, name: Name, dsn: Dsn = None, as_json: Json = False) -> None:
    """Print the SQL that creates a stream table, here or in another database."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        text = trickle.export_definition(name)
        if as_json:
            print_json({"name": name, "sql": text})
        else:
            print_text(text.rstrip("\n"))
