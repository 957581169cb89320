"""``pgtrickle inbound``: receive messages of brokers into inboxes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.outboxes.pipeline_lines import print_done, print_status
from pgtrickle.cli.outboxes.run_inbound import receive
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout
from pgtrickle.model.streams.inbound import InboundDeadLetter
from pgtrickle.model.text.printable import printable_line

inbound = typer.Typer(
    no_args_is_help=True,
    help="Receive messages of Kafka, NATS, Redis and SQS into inboxes.",
)
inbound.command("run")(receive)

Config = Annotated[
    Path | None,
    typer.Option("--config", help="A file with pipelines, beside those of the catalog."),
]
Pipeline = Annotated[str, typer.Argument(metavar="NAME", help="An inbound pipeline.")]
Some = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="An inbound pipeline; default: all.")
]


@inbound.callback()
def main() -> None:
    """Receive messages of Kafka, NATS, Redis and SQS into inboxes."""


@inbound.command()
def validate(
    ctx: typer.Context, config: Config = None, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Check the definitions of all inbound pipelines, with their secrets, and reach no broker."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        names = trickle.inbound.validate_inbound(config)
        if as_json:
            print_json({"pipelines": list(names)})
        else:
            stdout().print(f"{len(names)} inbound pipelines can be used", markup=False)


@inbound.command("test")
def reach(
    ctx: typer.Context,
    name: Pipeline,
    config: Config = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Reach the broker of an inbound pipeline, and receive nothing."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        lag = trickle.inbound.test_inbound(name, config)
        if as_json:
            print_json({"pipeline": name, "reached": True, "messages": lag})
        else:
            stdout().print(printable_line(f"{name}: reached"), markup=False)


@inbound.command("list")
def list_pipelines(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """List the inbound pipelines: from which kind of broker, into which inbox."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.inbound.inbound_status()
        if as_json:
            parts = ("pipeline", "inbox", "origin", "paused")
            print_json(
                {"pipelines": [{one: getattr(line, one) for one in parts} for line in found]}
            )
            return
        table = plain_table("pipeline", "inbox", "origin")
        for one in found:
            table.add_row(one.pipeline, one.inbox or "(dropped)", one.origin)
        stdout().print(table if found else "no inbound pipelines")


@inbound.command()
def status(ctx: typer.Context, name: Some = None, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show what inbound pipelines do, and why they do not go on."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.inbound.inbound_status(name)
        if as_json:
            print_json({"pipelines": [values_document(one) for one in found]})
            return
        for one in found:
            print_status(one, f"{one.messages} messages, {one.duplicates} duplicates")
        if not found:
            stdout().print("no inbound pipelines", markup=False)


@inbound.command()
def pause(ctx: typer.Context, name: Pipeline, dsn: Dsn = None, as_json: Json = False) -> None:
    """Let an inbound pipeline receive nothing until it is resumed."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.inbound.pause_inbound(name)
        print_done(name, "is paused", "paused", as_json=as_json)


@inbound.command()
def resume(
    ctx: typer.Context,
    name: Pipeline,
    again: Annotated[
        bool, typer.Option("--again", help="Begin anew, as if it had received nothing.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let an inbound pipeline go on."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.inbound.resume_inbound(name, again=again)
        print_done(name, "goes on", "resumed", as_json=as_json)


@inbound.command()
def drop(
    ctx: typer.Context,
    name: Pipeline,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if there is no such pipeline.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Drop an inbound pipeline; what it received stays in the inbox."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.inbound.drop_inbound_pipeline(name, if_exists=if_exists)
        print_done(name, "is gone", "dropped", as_json=as_json)


@inbound.command("dead-letters")
def dead_letters(
    ctx: typer.Context,
    name: Some = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 100,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the messages that cannot be read."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.inbound.inbound_dead_letters(name, limit)
        if as_json:
            print_json({"dead_letters": [_letter(one) for one in found]})
            return
        for one in found:
            line = f"{one.dead_letter_id} {one.pipeline} {one.message_id}: {one.error}"
            stdout().print(printable_line(line), markup=False, soft_wrap=True)
        if not found:
            stdout().print("no dead letters", markup=False)


def _letter(one: InboundDeadLetter) -> dict[str, object]:
    """Return a dead letter for JSON; bytes as PostgreSQL writes them."""
    return {
        "dead_letter_id": one.dead_letter_id,
        "pipeline": one.pipeline,
        "message_id": one.message_id,
        "key": None if one.key is None else f"\\x{one.key.hex()}",
        "value": None if one.value is None else f"\\x{one.value.hex()}",
        "headers": one.headers,
        "error_code": one.error_code,
        "error": one.error,
        "failed_at": one.failed_at.isoformat(),
    }


@inbound.command()
def replay(
    ctx: typer.Context,
    name: Pipeline,
    letters: Annotated[
        list[int] | None, typer.Option("--letter", help="Only these dead letters.")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let dead letters be read again, with the pipeline as it is defined now."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        number = trickle.inbound.replay_inbound_dead_letters(name, letters)
        if as_json:
            print_json({"pipeline": name, "replayed": number})
        else:
            stdout().print(f"{number} dead letters are read again", markup=False)
