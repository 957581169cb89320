"""``pgtrickle run``: keep stream tables fresh in the foreground."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.daemon.leave_on_time import leaving_on_time
from pgtrickle.cli.daemon.log_lines import LogFormat, logging_lines
from pgtrickle.cli.daemon.page import serving_page
from pgtrickle.cli.daemon.probes import LOOPBACK, Health, serving_health
from pgtrickle.cli.daemon.sent_metrics import sending_metrics
from pgtrickle.cli.daemon.stop_signals import stopped_by_signals
from pgtrickle.cli.documents import error_document, report_document, sink_news_document
from pgtrickle.cli.lake.sink import sink_line
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.outboxes.undelivered import is_undelivered, undelivered_line
from pgtrickle.cli.output import errors_as_exit_codes, print_error, print_json, stderr, stdout
from pgtrickle.cli.setup import Setup
from pgtrickle.cli.stream_tables.refresh import describe
from pgtrickle.errors import RefreshCancelledError, StandbyError, TrickleError
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action
from pgtrickle.model.streams.relay import RelayStatus
from pgtrickle.scheduler.loop import Loop, Watcher
from pgtrickle.scheduler.pace import Cycle
from pgtrickle.settings import load_settings

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle
    from pgtrickle.cli.daemon.metrics import Metrics
    from pgtrickle.daemon import Daemon
    from pgtrickle.service.insight.metric_values import FigureReader
    from pgtrickle.service.scheduling.leadership import Leadership


_LOOK_AGAIN = 2.0  # seconds between two looks at a standby


def run(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Make one pass and end.")] = False,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Answer /live, /ready and /metrics on this port.",
        ),
    ] = None,
    health_address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address of that port; 0.0.0.0 or :: for all of this machine's.",
        ),
    ] = LOOPBACK,
    ui_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve the page of pgtrickle ui on this port."),
    ] = None,
    ui_token_file: Annotated[
        Path | None,
        typer.Option(help="The token of that page is in this file.", show_default=False),
    ] = None,
    ui_sign_in: Annotated[
        bool,
        typer.Option("--ui-sign-in", help="Roles of the database sign in there, without a token."),
    ] = False,
    relay: Annotated[
        bool, typer.Option("--relay", help="Deliver pipelines too, as pgtrickle relay run does.")
    ] = False,
    relay_config: Annotated[
        Path | None,
        typer.Option(help="Deliver those of this file too.", show_default=False),
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(case_sensitive=False, help="Write a log to standard error, line by line."),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Refresh stream tables when they are due, until Ctrl-C or SIGTERM.

    A stream table with the schedule 'calculated' is due as often as its consumers. A failed refresh
    is repeated, after longer and longer pauses. After a signal, running refreshes may finish within
    half of shutdown_seconds; a second signal does not wait for them.
    With --relay it delivers what outboxes record, too; with --once, after the pass.
    If several daemons run on one database, one of them works; when it dies, another takes over
    within ten seconds. On a standby the daemon waits for the promotion.
    With --json, each refresh is one line of JSON; with --log-format json, so is every line of both
    standard streams. With --once, the exit code is 1 if a refresh failed. The exit code is 124 if
    something still hung after a signal and was abandoned. SIGHUP makes it look at the settings at
    once.
    """
    from pgtrickle.cli.daemon.metrics import Metrics  # noqa: PLC0415 - takes longer than --help should

    # A program that reads the log as JSON wants nothing else between.
    as_json = as_json or log_format is LogFormat.JSON
    printer = _Printer(as_json=as_json, debug=ctx.ensure_object(Setup).debug)
    health = Health()
    metrics = Metrics(health)
    with (
        logging_lines(log_format),
        errors_as_exit_codes(ctx, as_json=as_json, compact=log_format is LogFormat.JSON),
        serving_health(health, health_port, metrics.page, health_address) as port,
        stopped_by_signals() as stop,
        _reloaded_by_signal() as reload,
        leaving_on_time(load_settings().shutdown_seconds) as leaving,
    ):
        if port is not None and not once:
            host = f"[{health_address}]" if ":" in health_address else health_address
            stderr().print(f"health checks on http://{host}:{port}", markup=False)
        with _connected_to_primary(ctx, dsn, stop, health, patient=not once) as trickle:
            if trickle is not None:
                if log_format is None:  # which tells of them too
                    _tell_unknown(ctx, trickle)
                daemon = reload.daemon = trickle.daemon
                leaving.seconds = daemon.shutdown_seconds
                leaving.cancel, leaving.kill = daemon.cancel_refreshes, daemon.kill_engine
                attendant = _Attendant(metrics, _Lead(logged=log_format is not None))
                beside = None
                if relay or relay_config is not None:
                    beside = daemon.relay_beside(relay_config)
                    metrics.relays = daemon.relay_status
                    attendant.checks.append(beside.find_problem)
                metrics.database = daemon.figure_reader().database
                with (
                    serving_page(
                        trickle, None if once else ui_port, ui_token_file, sign_in=ui_sign_in
                    ),
                    sending_metrics(daemon.settings, metrics),
                ):
                    watcher = _Both(printer, metrics)
                    daemon.run(stop, watcher, attendant, once=once, relay=beside)
                if once and beside is not None:
                    printer.undelivered(daemon.relay_status())
    if once and printer.failures:
        raise typer.Exit(1)


def _tell_unknown(ctx: typer.Context, trickle: Trickle) -> None:
    """Say which settings in the database nobody knows; those of the environment are told of."""
    for unknown in [] if ctx.ensure_object(Setup).quiet else trickle.daemon.unknown_parameters():
        stderr().print(f"warning: {unknown}", markup=False)


@contextmanager
def _connected_to_primary(
    ctx: typer.Context, dsn: str | None, stop: threading.Event, health: Health, *, patient: bool
) -> Iterator[Trickle | None]:
    """Connect; on a standby wait for its promotion, and yield None if the wait is called off."""
    with ExitStack() as stack:
        trickle = None
        while trickle is None and not stop.is_set():
            try:
                with ExitStack() as attempt:
                    found = attempt.enter_context(connected(ctx, dsn, new_server=True))
                    found.daemon.check_primary()
                    stack.enter_context(attempt.pop_all())
                trickle = found
            except StandbyError as error:
                if not patient:
                    raise
                if health.state != "waiting":
                    stderr().print(f"waiting: {error}", markup=False)
                health.round("waiting")
                stop.wait(_LOOK_AGAIN)
        yield trickle


@dataclass(slots=True)
class _Lead:
    """Says that another daemon leads, and when this one takes over; a log tells it by itself."""

    logged: bool
    stands_by: bool = False

    def tell(self, leadership: Leadership) -> None:
        if leadership.leads == (not self.stands_by) or leadership.problem is not None:
            return
        self.stands_by = not leadership.leads
        if self.logged:
            return
        told = f"standing by: {leadership.leader} leads; this one takes over when it ends"
        stderr().print(told if self.stands_by else "leading now", markup=False)


@dataclass(frozen=True, slots=True)
class _Attendant:
    """Lets probes, metrics and the terminal know how the daemon stands."""

    metrics: Metrics
    lead: _Lead
    checks: list[Callable[[], str | None]] = field(default_factory=list)

    def begins(self, loop: Loop, figures: FigureReader) -> None:
        self.metrics.loop, self.metrics.figures = loop, figures.read
        self.metrics.engine, self.metrics.database = figures.read_engine, figures.database

    def stands(self, leadership: Leadership) -> None:
        stderr().print("keeping stream tables fresh; Ctrl-C ends", markup=False)
        health = self.metrics.health
        health.leads = lambda: leadership.leads
        health.checks = [leadership.find_problem]
        if self.metrics.loop is not None:
            health.checks.append(self.metrics.loop.find_problem)
        health.checks += self.checks

    def passes(self, leadership: Leadership) -> None:
        self.metrics.health.round("leading" if leadership.leads else "standing by")
        self.lead.tell(leadership)

    def stops(self) -> None:
        self.metrics.health.state = "stopping"


@dataclass(frozen=True, slots=True)
class _Both:
    """Tells two watchers what the loop does."""

    first: Watcher
    second: Watcher

    def refreshed(self, report: RefreshReport) -> None:
        self.first.refreshed(report)
        self.second.refreshed(report)

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        self.first.failed(name, error, retry_in)
        self.second.failed(name, error, retry_in)

    def resumed(self, name: str) -> None:
        self.first.resumed(name)
        self.second.resumed(name)

    def sink_changed(self, news: SinkNews) -> None:
        self.first.sink_changed(news)
        self.second.sink_changed(news)

    def fell_behind(self, cycle: Cycle) -> None:
        self.first.fell_behind(cycle)
        self.second.fell_behind(cycle)


@dataclass(slots=True)
class _Printer:
    """Prints what the loop does, one line each; refreshes that found nothing stay silent."""

    as_json: bool
    debug: bool
    failures: int = 0

    def refreshed(self, report: RefreshReport) -> None:
        if report.action is Action.NO_DATA or report.refresh_id is None:
            return
        if self.as_json:
            print_json(report_document(report), indent=None)
        else:
            stdout().print(describe(report), markup=False)

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        self.failures += 1
        seconds = retry_in.total_seconds()
        if self.as_json:
            document = {
                "stream_table": name,
                "retry_in_seconds": seconds,
                "suspended": error.suspended or None,
            } | error_document(error)
            print_json(document, indent=None)
            return
        print_error(error, as_json=False, debug=self.debug)
        if error.suspended:
            told = (
                f"{error.suspended}: SUSPENDED because of {error.code}; it is tried again in"
                f" {seconds:.0f} s, and resumed if that succeeds. Resume it yourself with:"
                f" pgtrickle alter {error.suspended} --status ACTIVE"
            )
        elif isinstance(error, RefreshCancelledError):
            told = f"{name}: next attempt when it is due"
        else:
            told = f"{name or 'pgtrickle'}: next attempt in {seconds:.0f} s"
        stderr().print(told, markup=False, soft_wrap=True)

    def undelivered(self, found: Sequence[RelayStatus]) -> None:
        """Tell which pipelines a relay that was to deliver everything could not."""
        for one in filter(is_undelivered, found):
            self.failures += 1
            if self.as_json:
                document = {"pipeline": one.pipeline, "state": one.state, "code": one.error_code}
                print_json(document, indent=None)
            else:
                stderr().print(undelivered_line(one), markup=False)

    def resumed(self, name: str) -> None:
        if self.as_json:
            print_json({"stream_table": name, "resumed": True}, indent=None)
        else:
            stderr().print(f"{name}: works again, and is resumed", markup=False)

    def sink_changed(self, news: SinkNews) -> None:
        if self.as_json:
            print_json(sink_news_document(news), indent=None)
        else:
            stderr().print(sink_line(news), markup=False, soft_wrap=True)

    def fell_behind(self, cycle: Cycle) -> None:
        name, took = str(cycle.stream_table.name), cycle.took.total_seconds()
        every = (cycle.every * cycle.before.stretch).total_seconds()
        if self.as_json:
            late = {"took_seconds": took, "interval_seconds": every, "stretch": cycle.after.stretch}
            print_json({"stream_table": name, "falling_behind": late}, indent=None)
        else:
            told = f"{name} falls behind: it took {took:.1f} s, and is due every {every:g} s"
            stderr().print(told, markup=False, soft_wrap=True)


@dataclass(slots=True)
class _Reload:
    """Makes a daemon look at its settings when somebody sends SIGHUP, which does not end it."""

    daemon: Daemon | None = None

    def __call__(self, _number: int, _frame: object) -> None:
        if self.daemon is not None:
            self.daemon.expire_settings()


@contextmanager
def _reloaded_by_signal() -> Iterator[_Reload]:
    reload = _Reload()
    previous = signal.signal(signal.SIGHUP, reload)
    try:
        yield reload
    finally:
        signal.signal(signal.SIGHUP, previous)
