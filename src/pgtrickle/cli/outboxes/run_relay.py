"""``pgtrickle relay run``: a relay in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.daemon.log_lines import LogFormat, logging_lines
from pgtrickle.cli.daemon.probes import LOOPBACK, Health, serving_health
from pgtrickle.cli.daemon.stop_signals import stopped_by_signals
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.outboxes.undelivered import is_undelivered, undelivered_line
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stderr


def deliver(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Only these pipelines; default: all.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="A file with pipelines, beside those of the catalog."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when everything is delivered.")] = False,
    health_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Answer /live, /ready and /metrics on this port."),
    ] = None,
    health_address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address of that port.")
    ] = LOOPBACK,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(case_sensitive=False, help="Write a log to standard error, line by line."),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Deliver what outboxes record, until Ctrl-C or SIGTERM.

    Pipelines are those of the catalog and of the file; both are read again when they change. If
    several relays run, each pipeline is delivered by one of them; when that dies, another takes
    over within PGTRICKLE_LEASE_SECONDS. With --once, the exit code is 1 if a pipeline could not
    deliver everything.
    """
    from pgtrickle.cli.outboxes.relay_metrics import write_page  # noqa: PLC0415 - takes longer than --help should

    health = Health()
    with (
        logging_lines(log_format),
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn) as trickle,
        stopped_by_signals() as stop,
    ):
        database = trickle.daemon.figure_reader().database

        def page() -> bytes:
            return write_page(trickle.relay.relay_status(), database)

        with serving_health(health, health_port, page, health_address) as port:
            if port is not None:
                stderr().print(f"health checks on port {port}", markup=False)
            health.round("leading")
            if not once:
                stderr().print("delivering; Ctrl-C ends", markup=False)
            found = trickle.relay.run_relay(
                config,
                names or (),
                stop=stop,
                once=once,
                each_round=lambda: health.round("leading"),
            )
        failed = [one for one in found if once and is_undelivered(one)]
        for one in failed:
            stderr().print(undelivered_line(one), markup=False)
        if as_json:
            print_json({"pipelines": [values_document(one) for one in found]})
    if failed:
        raise typer.Exit(1)
