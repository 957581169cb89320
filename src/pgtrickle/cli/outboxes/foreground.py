"""A relay of either direction in the foreground: its log, its port, its end, and its exit code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.daemon.log_lines import LogFormat, logging_lines
from pgtrickle.cli.daemon.probes import Health, serving_health
from pgtrickle.cli.daemon.stop_signals import stopped_by_signals
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.outboxes.undelivered import is_undelivered, undelivered_line
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stderr
from pgtrickle.model.streams.inbound import InboundStatus
from pgtrickle.model.streams.relay import RelayStatus

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle

S = TypeVar("S", RelayStatus, InboundStatus)


@dataclass(frozen=True, slots=True)
class Foreground(Generic[S]):
    """What a relay does until it ends."""

    says: str
    work: Callable[[Trickle, threading.Event, Callable[[], None]], Sequence[S]]
    page: Callable[[Trickle, str], bytes]
    once: bool

    def run(
        self,
        ctx: typer.Context,
        dsn: str | None,
        *,
        log_format: LogFormat | None,
        health_port: int | None,
        health_address: str,
        as_json: bool,
    ) -> None:
        """Work until a signal; with ``once``, the exit code is 1 if a pipeline is not done."""
        health = Health()
        with (
            logging_lines(log_format),
            errors_as_exit_codes(ctx, as_json=as_json),
            connected(ctx, dsn) as trickle,
            stopped_by_signals() as stop,
        ):
            database = trickle.daemon.figure_reader().database

            def page() -> bytes:
                return self.page(trickle, database)

            with serving_health(health, health_port, page, health_address) as port:
                if port is not None:
                    stderr().print(f"health checks on port {port}", markup=False)
                health.round("leading")
                if not self.once:
                    stderr().print(f"{self.says}; Ctrl-C ends", markup=False)
                found = self.work(trickle, stop, lambda: health.round("leading"))
            failed = [one for one in found if self.once and is_undelivered(one)]
            for one in failed:
                stderr().print(undelivered_line(one), markup=False)
            if as_json:
                print_json({"pipelines": [values_document(one) for one in found]})
        if failed:
            raise typer.Exit(1)
