"""``pgtrickle init``: make or upgrade the catalog in a database."""

from __future__ import annotations

import typer

from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.session import connected


def init(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Make or upgrade the catalog in the database; again does no harm."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        applied = trickle.init()
        if as_json:
            print_json({"applied": applied})
        elif applied:
            stdout().print(f"catalog ready: applied migrations {', '.join(map(str, applied))}")
        else:
            stdout().print("catalog ready")
