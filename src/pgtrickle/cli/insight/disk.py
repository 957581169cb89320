"""``pgtrickle disk``: what everything takes on disk."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout
from pgtrickle.model.text.sizes import in_bytes


def disk(
    ctx: typer.Context,
    *,
    every: Annotated[bool, typer.Option("--all", help="Show each table, not only sums.")] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show what contents, state, buffers, snapshots, history and the rest take on disk."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.insight.disk_usage()
    if as_json:
        total = sum(one.bytes for one in found)
        print_json({"bytes": total, "tables": [values_document(one) for one in found]})
        return
    if every:
        table = plain_table("kind", "table", "of", "size", "rows", "kept", right=("size", "rows"))
        for one in found:
            table.add_row(
                one.kind,
                one.name,
                one.stream_table or "",
                in_bytes(one.bytes),
                f"{one.estimated_rows:,}",
                one.retention or "",
            )
    else:
        table = plain_table("kind", "tables", "size", "kept", right=("tables", "size"))
        sizes, tables = Counter[str](), Counter(one.kind for one in found)
        for one in found:
            sizes[one.kind] += one.bytes
        kept = {one.kind: one.retention or "" for one in found}
        for kind, size in sizes.most_common():
            table.add_row(kind, str(tables[kind]), in_bytes(size), kept[kind])
    stdout().print(table)
    stdout().print(f"{in_bytes(sum(one.bytes for one in found))} in all", markup=False)
