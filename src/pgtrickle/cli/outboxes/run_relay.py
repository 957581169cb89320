"""``pgtrickle relay run``: a relay in the foreground."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.daemon.log_lines import LogFormat
from pgtrickle.cli.daemon.probes import LOOPBACK
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.outboxes.foreground import Foreground
from pgtrickle.model.streams.relay import RelayStatus

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle


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
    from pgtrickle.cli.outboxes.relay_metrics import METRICS  # noqa: PLC0415 - takes longer than --help should

    def work(
        trickle: Trickle, stop: threading.Event, each_round: Callable[[], None]
    ) -> list[RelayStatus]:
        run = trickle.relay.run_relay
        return run(config, names or (), stop=stop, once=once, each_round=each_round)

    def page(trickle: Trickle, database: str) -> bytes:
        return METRICS.write_page(trickle.relay.relay_status(), database)

    Foreground("delivering", work, page, once).run(
        ctx,
        dsn,
        log_format=log_format,
        health_port=health_port,
        health_address=health_address,
        as_json=as_json,
    )
