"""``pgtrickle repair NAME``: mend what maintains a stream table."""

from __future__ import annotations

from dataclasses import asdict

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json, Local, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working


def repair(
    ctx: typer.Context, name: Name, local: Local = False, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Restore triggers, buffers and guard, and clear errors; the next refresh reloads it."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        with working(f"Repairing {name}"):
            mended = trickle.repair_stream_table(name)
        if as_json:
            print_json({"mended": [asdict(one) for one in mended]})
        for one in [] if as_json else mended:
            stdout().print(f"{one.source}: {one.what}", markup=False)
