"""``pgtrickle run``: keep stream tables fresh in the foreground."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

import typer

from pgtrickle.cli.documents import error_document, report_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_error, print_json, stderr, stdout
from pgtrickle.cli.refresh import describe
from pgtrickle.cli.session import connected
from pgtrickle.cli.setup import Setup
from pgtrickle.errors import TrickleError
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action
from pgtrickle.scheduler.loop import Loop


def run(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Make one pass and end.")] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Refresh stream tables when they are due, until Ctrl-C or SIGTERM.

    A schedule of 'calculated' means every second. What failed is tried again, after longer and
    longer pauses. A signal lets the refresh in progress finish; a second one does not wait.
    With --json each refresh is one line of JSON. With --once the exit code is 1 if one failed.
    """
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        printer = _Printer(as_json=as_json, debug=ctx.ensure_object(Setup).debug)
        loop = Loop(trickle, printer)
        with _stopped_by_signals() as stop, ThreadPoolExecutor(max_workers=1) as executor:
            if not once:
                stderr().print("keeping stream tables fresh; Ctrl-C ends", markup=False)
            # Not in the main thread: there pyspark would take Ctrl-C over and kill the refresh.
            executor.submit(loop.run_once if once else loop.run, stop).result()
        if once and printer.failures:
            raise typer.Exit(1)


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
