"""``pgtrickle sink``: look after the copies of stream tables in the lake."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import sink_document
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.waiting import Wait, when_free
from pgtrickle.model.lake.sink import DeliveryStatus, SinkNews, SinkStatus

sink = typer.Typer(no_args_is_help=True, help="Check and control the copies in the lake.")

Check = Annotated[
    bool, typer.Option("--check", help="Exit 1 if a copy is not up to date, for scripts.")
]


@sink.command()
def status(
    ctx: typer.Context, check: Check = False, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Show every copy in the lake: its position, deliveries and errors."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.lake.ducklake_sink_status()
        if as_json:
            print_json({"sinks": [sink_document(one) for one in found]})
        for one in [] if as_json else found:
            stdout().print(_line(one), markup=False)
        if not as_json and not found:
            stdout().print("no copies in the lake", markup=False)
        if check and any(one.status is not DeliveryStatus.DELIVERED for one in found):
            raise typer.Exit(1)


@sink.command()
def retry(
    ctx: typer.Context, name: Name, wait: Wait = True, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Deliver the missing rows of a stream table to the lake now; exit 1 if that fails."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working(f"Delivering {name}"):
            found = when_free(trickle, name, lambda: trickle.lake.retry_sink(name), wait=wait)
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
    if one.last_error is None:
        return text
    since = "" if one.failing_since is None else f", failing since {_moment(one.failing_since)}"
    again = "" if one.next_attempt_at is None else f", next {_moment(one.next_attempt_at)}"
    lines = [text, f"{one.attempt_count} attempts{since}{again}: {one.last_error}", one.remedy]
    return "\n  ".join(filter(None, lines))


def sink_line(news: SinkNews) -> str:
    """Return what the console of a daemon says of a copy that failed or recovered."""
    sink = news.sink
    tried = f"{sink.attempts} attempts since {_moment(sink.since)}"
    if news.recovered:
        return f"{sink.stream_table}: its copy in the lake is up to date again, after {tried}"
    at = "given up" if sink.next_attempt_at is None else f"next {_moment(sink.next_attempt_at)}"
    return (
        f"{sink.stream_table}: could not be delivered to the lake ({tried}, {at}): {sink.error}\n"
        f"  hint: {sink.remedy}"
    )


def _moment(value: datetime) -> str:
    return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"
