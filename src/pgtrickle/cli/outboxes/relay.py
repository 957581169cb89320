"""``pgtrickle relay``: deliver what outboxes record to brokers, files and other databases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.outboxes.pipeline_lines import print_done, print_status
from pgtrickle.cli.outboxes.run_relay import deliver
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout
from pgtrickle.model.streams.relay import DeadLetter
from pgtrickle.model.text.printable import printable_line

relay = typer.Typer(
    no_args_is_help=True,
    help="Deliver what outboxes record to brokers, files, services and other databases.",
)
relay.command("run")(deliver)

Config = Annotated[
    Path | None,
    typer.Option("--config", help="A file with pipelines, beside those of the catalog."),
]
Pipeline = Annotated[str, typer.Argument(help="A pipeline.")]
Some = Annotated[str | None, typer.Argument(help="A pipeline; default: all.")]


@relay.callback()
def main() -> None:
    """Deliver what outboxes record to brokers, files, services and other databases."""


@relay.command()
def validate(
    ctx: typer.Context, config: Config = None, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Check the definitions of all pipelines, with their secrets, and reach no receiver."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        names = trickle.relay.validate_relay(config)
        if as_json:
            print_json({"pipelines": names})
        else:
            stdout().print(f"{len(names)} pipelines can be used", markup=False)


@relay.command("test")
def reach(
    ctx: typer.Context,
    name: Pipeline,
    config: Config = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Reach the receiver of a pipeline, deliver nothing, and say what it promises."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        promise = trickle.relay.test_relay(name, config)
        if as_json:
            print_json({"pipeline": name, "reached": True, "guarantee": promise})
        else:
            stdout().print(f"{name}: reached; delivers {promise}", markup=False)


@relay.command("list")
def list_pipelines(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """List the pipelines: from which stream table, to which kind of receiver."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.relay.relay_status()
        if as_json:
            parts = ("pipeline", "stream_table", "sink", "paused")
            print_json(
                {"pipelines": [{one: getattr(line, one) for one in parts} for line in found]}
            )
            return
        table = plain_table("pipeline", "stream table", "sink")
        for one in found:
            table.add_row(one.pipeline, one.stream_table or "(dropped)", one.sink)
        stdout().print(table if found else "no pipelines")


@relay.command()
def status(ctx: typer.Context, name: Some = None, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show what pipelines do, how far they are behind, and why they do not go on."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.relay.relay_status(name)
        if as_json:
            print_json({"pipelines": [values_document(one) for one in found]})
            return
        for one in found:
            behind = f"{one.lag_entries} entries and {one.lag_seconds:.1f} s behind"
            print_status(one, f"{one.messages} messages delivered, {behind}")
        if not found:
            stdout().print("no pipelines", markup=False)


@relay.command()
def pause(ctx: typer.Context, name: Pipeline, dsn: Dsn = None, as_json: Json = False) -> None:
    """Let a pipeline deliver nothing until it is resumed."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.relay.pause_relay(name)
        print_done(name, "is paused", "paused", as_json=as_json)


@relay.command()
def resume(
    ctx: typer.Context,
    name: Pipeline,
    again: Annotated[
        bool, typer.Option("--again", help="Begin anew, as if it had delivered nothing.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let a pipeline go on that is paused or blocked."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.relay.resume_relay(name, again=again)
        print_done(name, "goes on", "resumed", as_json=as_json)


@relay.command()
def drop(
    ctx: typer.Context,
    name: Pipeline,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if there is no such pipeline.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Drop a pipeline of the catalog, or what is recorded of one of a file."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        trickle.relay.drop_relay_pipeline(name, if_exists=if_exists)
        print_done(name, "is gone", "dropped", as_json=as_json)


@relay.command("dead-letters")
def dead_letters(
    ctx: typer.Context,
    name: Some = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 100,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the messages that receivers refused, with the later ones of their keys."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.relay.relay_dead_letters(name, limit)
        if as_json:
            print_json({"dead_letters": [values_document(one) for one in found]})
            return
        for one in found:
            stdout().print(_letter_line(one), markup=False, soft_wrap=True)
        if not found:
            stdout().print("no dead letters", markup=False)


def _letter_line(one: DeadLetter) -> str:
    return printable_line(
        f"{one.dead_letter_id} {one.pipeline} {one.message_id} {one.op} {one.key or ''}:"
        f" {one.error_code} {one.error}"
    )


@relay.command()
def replay(
    ctx: typer.Context,
    name: Pipeline,
    letters: Annotated[
        list[int] | None, typer.Option("--letter", help="Only these dead letters.")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Let dead letters be delivered again, each with the others of its key."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        number = trickle.relay.replay_dead_letters(name, letters)
        if as_json:
            print_json({"pipeline": name, "replayed": number})
        else:
            stdout().print(f"{number} dead letters are delivered again", markup=False)
