"""``pgtrickle list``: every stream table, one line each."""

from __future__ import annotations

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import stream_table_document
from pgtrickle.cli.moments import ago
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout


def list_stream_tables(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """List the stream tables of the database."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        tables = trickle.list_stream_tables()
        if as_json:
            print_json({"stream_tables": [stream_table_document(table) for table in tables]})
            return
        if not tables:
            stdout().print("no stream tables")
            return
        listing = plain_table("name", "status", "mode", "runs as", "schedule", "refreshed")
        for table in tables:
            listing.add_row(
                str(table.name),
                table.status.value,
                table.refresh_mode.value,
                table.effective_refresh_mode.value,
                table.schedule,
                ago(table.last_refresh_at),
            )
        stdout().print(listing)
