"""``pgtrickle repair NAME``: mend what maintains a stream table."""

from __future__ import annotations

from dataclasses import asdict

import typer

from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.session import connected


def repair(ctx: typer.Context, name: Name, dsn: Dsn = None, as_json: Json = False) -> None:
    """Make triggers, buffers and guard whole again and forget errors; it then starts anew."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working(f"Repairing {name}"):
            mended = trickle.repair_stream_table(name)
        if as_json:
            print_json([asdict(one) for one in mended])
        for one in [] if as_json else mended:
            stdout().print(f"{one.source}: {one.what}", markup=False)
