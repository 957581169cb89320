"""``pgtrickle init`` and ``pgtrickle migrate``: make or upgrade the catalog in a database."""

from __future__ import annotations

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout


def init(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Create or upgrade the catalog in the database; safe to repeat."""
    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn, new_server=True) as trickle,
    ):
        _tell(trickle.init(), as_json=as_json)


def migrate(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Upgrade the catalog in the database to this version; safe to repeat."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        _tell(trickle.migrate(), as_json=as_json)


def _tell(applied: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"applied": applied})
    elif applied:
        stdout().print(f"catalog ready: applied {', '.join(applied)}", markup=False)
    else:
        stdout().print("catalog ready")
