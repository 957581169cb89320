"""``pgtrickle run``: keep stream tables fresh in the foreground."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.documents import error_document, report_document
from pgtrickle.cli.health import LOOPBACK, Health, serving_health
from pgtrickle.cli.leave_on_time import leaving_on_time
from pgtrickle.cli.log_lines import LogFormat, logging_lines
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_error, print_json, stderr, stdout
from pgtrickle.cli.refresh import describe
from pgtrickle.cli.session import connected
from pgtrickle.cli.setup import Setup
from pgtrickle.errors import StandbyError, TrickleError
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action
from pgtrickle.scheduler.loop import Loop, Watcher, worker_threads
from pgtrickle.scheduler.timetable import Timetable
from pgtrickle.settings import load_settings

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle
    from pgtrickle.cli.metrics import Metrics


_JITTER = (0.8, 1.2)  # so that what failed together does not try again together
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
    log_format: Annotated[
        LogFormat | None,
        typer.Option(case_sensitive=False, help="Write a log to standard error, line by line."),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Refresh stream tables when they are due, until Ctrl-C or SIGTERM.

    A schedule of 'calculated' follows the stream tables that read it. What failed is tried again,
    after longer and longer pauses. A signal lets the refreshes in progress finish, for half of
    shutdown_seconds; a second one does not wait.
    Of several on one database one works; another takes over within ten seconds if it dies. On a
    standby it waits until that is promoted.
    With --json each refresh is one line of JSON. With --once the exit code is 1 if one failed. It
    is 124 if something hung after a signal and had to be left.
    """
    from pgtrickle.cli.metrics import Metrics  # noqa: PLC0415 - takes longer than --help should

    printer = _Printer(as_json=as_json, debug=ctx.ensure_object(Setup).debug)
    health = Health()
    metrics = Metrics(health)
    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        logging_lines(log_format),
        serving_health(health, health_port, metrics.page, health_address) as port,
        _stopped_by_signals() as stop,
        leaving_on_time(load_settings().shutdown_seconds) as leaving,
    ):
        if port is not None and not once:
            host = f"[{health_address}]" if ":" in health_address else health_address
            stderr().print(f"health checks on http://{host}:{port}", markup=False)
        with _connected_to_primary(ctx, dsn, stop, health, patient=not once) as trickle:
            if trickle is not None:
                leaving.seconds = trickle.shutdown_seconds
                leaving.cancel, leaving.kill = trickle.cancel_refreshes, trickle.kill_engine
                _keep_fresh(trickle, printer, stop, metrics, once=once)
    if once and printer.failures:
        raise typer.Exit(1)


@contextmanager
def _connected_to_primary(
    ctx: typer.Context, dsn: str | None, stop: threading.Event, health: Health, *, patient: bool
) -> Iterator[Trickle | None]:
    """Connect; on a standby wait for its promotion, and yield None if the wait is called off."""
    with ExitStack() as stack:
        trickle = None
        while trickle is None and not stop.is_set():
            try:
                trickle = stack.enter_context(connected(ctx, dsn))
            except StandbyError as error:
                if not patient:
                    raise
                if health.state != "waiting":
                    stderr().print(f"waiting: {error}", markup=False)
                health.round("waiting")
                stop.wait(_LOOK_AGAIN)
        yield trickle


def _keep_fresh(
    trickle: Trickle, printer: _Printer, stop: threading.Event, metrics: Metrics, *, once: bool
) -> None:
    health = metrics.health
    loop = Loop(
        trickle,
        _Both(printer, metrics),
        workers=lambda: worker_threads(trickle.max_concurrent_refreshes),
        timetable=Timetable(
            zone=trickle.time_zone(),
            auto_backoff=trickle.auto_backoff,
            jitter=lambda: random.uniform(*_JITTER),  # noqa: S311 - nothing is to be kept secret
        ),
    )
    metrics.loop, metrics.figures = loop, trickle.figure_reader().read
    # Not in the main thread: there pyspark would take Ctrl-C over and kill the refresh.
    with ThreadPoolExecutor(max_workers=1) as executor:
        if once:
            executor.submit(trickle.serve_requests).result()
            executor.submit(loop.run_once, stop).result()
            return
        stderr().print("keeping stream tables fresh; Ctrl-C ends", markup=False)
        with (
            trickle.pruning_history(),
            trickle.standing_for_leader() as leadership,
            trickle.listening_for_changes() as loop.bell,
        ):

            def leads() -> bool:
                health.round("leading" if leadership.leads else "standing by")
                return leadership.leads

            loop.leads, health.leads = leads, lambda: leadership.leads
            health.checks = [leadership.find_problem, loop.find_problem]
            with trickle.serving_requests(lambda: leadership.leads and not stop.is_set()):
                executor.submit(loop.run, stop).result()
                health.state = "stopping"


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


@dataclass(slots=True)
class _Printer:
    """Prints what the loop does, one line each; refreshes that found nothing stay silent."""

    as_json: bool
    debug: bool
    failures: int = 0

    def refreshed(self, report: RefreshReport) -> None:
        if report.action is Action.NO_DATA:
            return
        if self.as_json:
            print_json(report_document(report), indent=None)
        else:
            stdout().print(describe(report), markup=False)

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        self.failures += 1
        seconds = retry_in.total_seconds()
        if self.as_json:
            document = {"stream_table": name, "retry_in_seconds": seconds} | error_document(error)
            print_json(document, indent=None)
            return
        print_error(error, as_json=False, debug=self.debug)
        stderr().print(f"{name or 'pgtrickle'}: next attempt in {seconds:.0f} s", markup=False)


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set; a second signal acts as it always did."""
    stop = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in signals}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def stop_and_restore(_number: int, _frame: object) -> None:
        stop.set()
        restore()

    for number in signals:
        signal.signal(number, stop_and_restore)
    try:
        yield stop
    finally:
        restore()
