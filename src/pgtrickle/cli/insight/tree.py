"""``pgtrickle tree``: what stream tables read, drawn."""

from __future__ import annotations

from dataclasses import asdict

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, print_text, stdout
from pgtrickle.model.text.printable import printable_line


def tree(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Draw the stream tables as a tree, each above its sources."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.insight.dependency_tree()
        if as_json:
            print_json({"nodes": [asdict(one) for one in found]})
        for one in () if as_json else found:
            state = f" ({one.status}, {one.refresh_mode})" if one.status else ""
            print_text(printable_line(one.tree_line + state))
        if not (found or as_json):
            stdout().print("no stream tables")
