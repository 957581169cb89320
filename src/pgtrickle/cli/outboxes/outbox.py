"""``pgtrickle outbox``: follow what refreshes change in stream tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import row_text, values_document
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.waiting import Wait, when_free
from pgtrickle.model.streams.outbox import (
    INLINE_THRESHOLD_ROWS,
    RETENTION_HOURS,
    Outbox,
    OutboxChange,
)
from pgtrickle.model.text.json_values import json_row
from pgtrickle.model.text.printable import printable_line

outbox = typer.Typer(
    no_args_is_help=True,
    help="Record what refreshes change in a stream table, and show it.",
)

From = Annotated[
    int | None, typer.Option("--from", help="First entry; default: the oldest that is kept.")
]
To = Annotated[int | None, typer.Option("--to", help="Last entry; default: the newest.")]


@outbox.callback()
def main() -> None:
    """Record what refreshes change in a stream table, and show it."""


@outbox.command()
def enable(
    ctx: typer.Context,
    name: Name,
    retention_hours: Annotated[
        float, typer.Option(min=0, help="For how long entries are kept at least.")
    ] = RETENTION_HOURS,
    inline_threshold_rows: Annotated[
        int, typer.Option(min=0, help="Changes that an entry holds; more are kept apart from it.")
    ] = INLINE_THRESHOLD_ROWS,
    wait: Wait = True,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let every refresh append its changes to an outbox, or change what the outbox keeps."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        when_free(
            trickle,
            name,
            lambda: trickle.outbox.enable_outbox(name, retention_hours, inline_threshold_rows),
            wait=wait,
        )
        if as_json:
            print_json({"name": name, "enabled": True})
        else:
            stdout().print(f"{name}: its outbox is enabled", markup=False)


@outbox.command()
def disable(
    ctx: typer.Context,
    name: Name,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if there is no outbox.")
    ] = False,
    wait: Wait = True,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Take the outbox of a stream table away, with its entries and consumer groups."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        ended = when_free(
            trickle,
            name,
            lambda: trickle.outbox.disable_outbox(name, if_exists=if_exists),
            wait=wait,
        )
        if as_json:
            print_json({"name": name, "enabled": False, "ended": ended})
        else:
            text = "its outbox is gone" if ended else "there was no outbox"
            stdout().print(f"{name}: {text}", markup=False)


@outbox.command()
def status(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Stream table, as schema.name; default: all.")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show what outboxes keep, and which consumer group they wait for."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.outbox.outbox_status(name)
        if as_json:
            print_json({"outboxes": [values_document(one) for one in found]})
            return
        for one in found:
            stdout().print(_line(one), markup=False, soft_wrap=True)
        if not found:
            stdout().print("no outboxes", markup=False)


def _line(one: Outbox) -> str:
    kept = f"entries {one.first_id} to {one.last_id}" if one.entries else "no entries"
    waits = f"; {one.blocked_by} needs them beyond that" if one.blocked_by else ""
    return printable_line(
        f"{one.stream_table}: {kept}, kept for {one.retention_hours:g} hours{waits}"
    )


@outbox.command()
def rows(
    ctx: typer.Context,
    name: Name,
    from_id: From = None,
    to_id: To = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many changes.")] = 100,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the changes of the entries of an outbox, in order."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.outbox.outbox_rows(name, from_id, to_id, max_rows=limit)
        if as_json:
            print_json({"changes": [json_row(asdict(one)) for one in found]})
            return
        for one in found:
            stdout().print(_change_line(one), markup=False, soft_wrap=True)
        if not found:
            stdout().print("no changes", markup=False)


def _change_line(one: OutboxChange) -> str:
    rows = [row_text(row) for row in (one.before, one.after) if row]
    return printable_line(f"{one.outbox_id}.{one.row_number} {one.op} {' -> '.join(rows)}")
