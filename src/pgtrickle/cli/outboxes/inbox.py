"""``pgtrickle inbox``: tables that receive messages once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout
from pgtrickle.model.streams.inbox import (
    INBOX_RETENTION_HOURS,
    MAX_RETRIES,
    SCHEDULE_SECONDS,
    URGENT_FROM,
    URGENT_SECONDS,
    InboxStatus,
)
from pgtrickle.model.text.json_values import json_row
from pgtrickle.model.text.printable import printable_line

inbox = typer.Typer(
    no_args_is_help=True,
    help="Receive messages once, and follow what waits and what has failed.",
)

Inbox = Annotated[str, typer.Argument(metavar="NAME", help="Inbox, as schema.name.")]
Some = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Inbox, as schema.name; default: all.")
]


@inbox.callback()
def main() -> None:
    """Receive messages once, and follow what waits and what has failed."""


@inbox.command()
def create(
    ctx: typer.Context,
    name: Inbox,
    schema: Annotated[
        str | None, typer.Option("--schema", help="Where to create it, if NAME does not say.")
    ] = None,
    max_retries: Annotated[
        int, typer.Option(help="How often a message is tried before it is a dead letter.")
    ] = MAX_RETRIES,
    dead_letter: Annotated[
        bool, typer.Option(help="With a stream table of what has failed for good.")
    ] = True,
    stats: Annotated[bool, typer.Option(help="With a stream table of figures.")] = True,
    schedule_seconds: Annotated[
        int, typer.Option(help="How often its stream tables are refreshed.")
    ] = SCHEDULE_SECONDS,
    retention_hours: Annotated[
        float, typer.Option(help="For how long messages are kept that were dealt with.")
    ] = INBOX_RETENTION_HOURS,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Create a table that receives messages once, with its stream tables."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        made = trickle.inbox.create_inbox(
            name,
            schema,
            max_retries=max_retries,
            with_dead_letter=dead_letter,
            with_stats=stats,
            schedule_seconds=schedule_seconds,
            retention_hours=retention_hours,
        )
        if as_json:
            print_json({"inbox": name, "stream_tables": list(made)})
        else:
            stdout().print(printable_line(f"{name}: created, with {', '.join(made)}"), markup=False)


@inbox.command()
def drop(
    ctx: typer.Context,
    name: Inbox,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if there is no such inbox.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Drop an inbox, with its stream tables and its messages."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        gone = trickle.inbox.drop_inbox(name, if_exists=if_exists)
        if as_json:
            print_json({"dropped": list(gone)})
        else:
            text = f"dropped {', '.join(gone)}" if gone else f"{name}: there was no inbox"
            stdout().print(printable_line(text), markup=False)


@inbox.command("enable-ordering")
def enable_ordering(
    ctx: typer.Context,
    name: Inbox,
    aggregate_column: Annotated[
        str, typer.Option(help="What belongs together has the same value there.")
    ] = "aggregate_id",
    sequence_column: Annotated[
        str, typer.Option(help="The number by which it is in order.")
    ] = "sequence_num",
    skip_dead_letters: Annotated[
        bool,
        typer.Option("--skip-dead-letters", help="Let later messages pass one that has failed."),
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Give an inbox a stream table with the next message of each aggregate."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        made = trickle.inbox.enable_inbox_ordering(
            name, aggregate_column, sequence_column, skip_dead_letters=skip_dead_letters
        )
        _tell_made(name, made, as_json=as_json)


@inbox.command("disable-ordering")
def disable_ordering(
    ctx: typer.Context, name: Inbox, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Take the order of an inbox away, with its stream table."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        ended = trickle.inbox.disable_inbox_ordering(name)
        _tell_ended(name, "order", ended=ended, as_json=as_json)


@inbox.command("enable-priority")
def enable_priority(
    ctx: typer.Context,
    name: Inbox,
    priority_column: Annotated[str, typer.Option(help="The number that says it.")] = "priority",
    urgent_from: Annotated[
        float, typer.Option(help="Messages with this priority or more are urgent.")
    ] = URGENT_FROM,
    schedule_seconds: Annotated[
        int, typer.Option(help="How often the urgent ones are refreshed.")
    ] = URGENT_SECONDS,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Give an inbox a stream table with the urgent messages."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        made = trickle.inbox.enable_inbox_priority(
            name, priority_column, urgent_from, schedule_seconds
        )
        _tell_made(name, made, as_json=as_json)


@inbox.command("disable-priority")
def disable_priority(
    ctx: typer.Context, name: Inbox, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Take the stream table of urgent messages away."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        ended = trickle.inbox.disable_inbox_priority(name)
        _tell_ended(name, "priority", ended=ended, as_json=as_json)


def _tell_made(name: str, made: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"inbox": name, "stream_table": made})
    else:
        stdout().print(printable_line(f"{name}: see {made}"), markup=False)


def _tell_ended(name: str, what: str, *, ended: bool, as_json: bool) -> None:
    if as_json:
        print_json({"inbox": name, "ended": ended})
    else:
        text = f"its {what} is gone" if ended else f"it had no {what}"
        stdout().print(printable_line(f"{name}: {text}"), markup=False)


@inbox.command()
def status(ctx: typer.Context, name: Some = None, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show how many messages of inboxes wait, have failed for good, or are done."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.inbox.inbox_status(name)
        if as_json:
            print_json({"inboxes": [values_document(one) for one in found]})
            return
        for one in found:
            stdout().print(_line(one), markup=False, soft_wrap=True)
        if not found:
            stdout().print("no inboxes", markup=False)


def _line(one: InboxStatus) -> str:
    if one.trouble is not None:
        return printable_line(f"{one.inbox}: {one.trouble}")
    return printable_line(
        f"{one.inbox}: {one.pending} wait, {one.dead_letters} have failed, {one.processed} are done"
    )


@inbox.command()
def health(ctx: typer.Context, name: Some = None, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show whether inboxes work; the exit code is 1 if one does not."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.inbox.inbox_health(name)
        if as_json:
            print_json({"checks": [values_document(one) for one in found]})
        else:
            table = plain_table("inbox", "check", "severity", "detail")
            for one in found:
                table.add_row(one.inbox, one.check, one.severity, printable_line(one.detail))
            stdout().print(table if found else "no inboxes")
    if any(one.severity == "ERROR" for one in found):
        raise typer.Exit(1)


@inbox.command()
def gaps(
    ctx: typer.Context,
    name: Inbox,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 100,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show where numbers are missing in the sequences of an ordered inbox."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.inbox.inbox_ordering_gaps(name, limit)
        if as_json:
            print_json({"gaps": [json_row(asdict(one)) for one in found]})
            return
        for one in found:
            text = f"{one.aggregate}: {one.missing} missing after {one.after_sequence}"
            stdout().print(printable_line(text), markup=False, soft_wrap=True)
        if not found:
            stdout().print("no gaps", markup=False)


@inbox.command()
def replay(
    ctx: typer.Context,
    name: Inbox,
    messages: Annotated[
        list[str] | None, typer.Option("--message", help="Only this one; may be repeated.")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let messages wait again that have failed for good."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        number = trickle.inbox.replay_inbox_messages(name, messages)
        if as_json:
            print_json({"inbox": name, "replayed": number})
        else:
            stdout().print(f"{number} messages wait again", markup=False)
