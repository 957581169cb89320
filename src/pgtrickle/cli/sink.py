"""``pgtrickle sink``: look after the copies of stream tables in the lake."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.documents import sink_document
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.session import connected
from pgtrickle.model.lake_sink import DeliveryStatus, SinkStatus

sink = typer.Typer(no_args_is_help=True, help="Look after the copies in the lake.")

Check = Annotated[
    bool, typer.Option("--check", help="Exit 1 if a copy is not up to date, for scripts.")
]


@sink.command()
def status(
    ctx: typer.Context, check: Check = False, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Show every copy in the lake: how far it is, what was delivered, what went wrong."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.ducklake_sink_status()
        if as_json:
            print_json([sink_document(one) for one in found])
        for one in [] if as_json else found:
            stdout().print(_line(one), markup=False)
        if check and any(one.status is not DeliveryStatus.DELIVERED for one in found):
            raise typer.Exit(1)


@sink.command()
def retry(ctx: typer.Context, name: Name, dsn: Dsn = None, as_json: Json = False) -> None:
    """Deliver now what the lake lacks of a stream table; exit 1 if that fails."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working(f"Delivering {name}"):
            found = trickle.retry_sink(name)
        if as_json:
            print_json(sink_document(found))
        else:
            stdout().print(_line(found), markup=False)
        if found.status is not DeliveryStatus.DELIVERED:
            raise typer.Exit(1)


def _line(one: SinkStatus) -> str:
    text = (
        f"{one.stream_table} -> {one.lake_table}: {one.status.value} (snapshot {one.snapshot_id},"
        f" {one.deliveries} deliveries, +{one.rows_written} -{one.rows_deleted},"
        f" {one.bytes_written} bytes)"
    )
    return f"{text}\n  {one.attempt_count} attempts: {one.last_error}" if one.last_error else text
