"""``pgtrickle status``: one screen for people, one exit code for monitoring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import status_document
from pgtrickle.cli.moments import ago
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.model.lake.sink import DeliveryStatus
from pgtrickle.model.status_report import RunningRefresh, Severity, StatusReport, TableState
from pgtrickle.model.text.printable import printable_line

if TYPE_CHECKING:
    from collections.abc import Sequence

# 1 and 2 are taken, by an error with a code and by a usage mistake.
EXIT_CODES = {Severity.OK: 0, Severity.WARNING: 3, Severity.CRITICAL: 4}
_SHOWN = 8  # lines of one section
_BRIEF = 120  # characters of what a check found
STYLES = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}


def status(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show daemons, requests, running refreshes, problems, holds and sinks.

    The exit code is for monitoring: 0 all is well, 3 a warning, 4 critical; 1 if it could not be
    found out, with an error that has a code.
    """
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        report = trickle.status()
        if as_json:
            print_json(status_document(report))
        else:
            _print(report)
        if report.severity is not Severity.OK:
            raise typer.Exit(EXIT_CODES[report.severity])


def _print(report: StatusReport) -> None:
    console = stdout()
    console.print(Text(report.severity.value, STYLES[report.severity]))
    for check in report.checks:
        if check.severity is not Severity.OK:
            told = printable_line(f"  {check.check_name}: {_brief(check.detail)}")
            console.print(Text(told, STYLES[check.severity]))
    for title, lines in _sections(report):
        first, *others = [printable_line(line) for line in _few(list(lines))] or ["none"]
        console.print(Text(f"{title:<10} {first}"))
        for line in others:
            console.print(Text(f"{'':<10} {line}"))


def _few(lines: list[str]) -> list[str]:
    """Return what fits on a screen with all the rest."""
    more = len(lines) - _SHOWN
    return lines if more <= 1 else [*lines[:_SHOWN], f"and {more} more: pgtrickle status --json"]


def _brief(detail: str) -> str:
    """Return the beginning of a long list: the sections below say more.

    >>> _brief("public.a, public.b")
    'public.a, public.b'
    >>> _brief(", ".join(["public.revenue"] * 20))[-42:]
    'public.revenue, and more: pgtrickle health'
    """
    if len(detail) <= _BRIEF:
        return detail
    return f"{detail[:_BRIEF].rpartition(', ')[0] or detail[:_BRIEF]}, and more: pgtrickle health"


def _sections(report: StatusReport) -> Iterator[tuple[str, Sequence[str] | Iterator[str]]]:
    yield (
        "daemons",
        (
            f"{one.daemon}: {'leads' if one.leads else 'stands by'}, started {ago(one.started_at)}"
            f", pgtrickle {one.package}"
            for one in report.daemons
        ),
    )
    queue = report.queue
    oldest = f", the oldest asked {ago(queue.oldest_queued_at)}" if queue.queued else ""
    yield "requests", [f"{queue.queued} queued, {queue.running} running{oldest}"]
    yield "tables", [f"{report.stream_tables} stream tables"]
    yield "running", (_running(one) for one in report.running)
    yield "behind", (f"{_age(one)}, schedule {one.schedule}" for one in report.behind)
    yield "failing", (_failing(one) for one in report.failing)
    yield "suspended", (_stopped(one) for one in report.suspended)
    yield "held back", (f"{one.stream_table}: {one.reason}" for one in report.holds)
    yield "sinks", _sinks(report)


def _running(one: RunningRefresh) -> str:
    far = ""
    if one.stage is not None:
        far = f", {one.stage}: {one.rows_read:,} rows read, {one.rows_staged:,} staged"
    return f"{one.stream_table}: began {ago(one.running_since)}, by {one.daemon}{far}"


def _age(one: TableState) -> str:
    seconds = one.staleness_seconds
    return f"{one.stream_table}: {'never loaded' if seconds is None else f'{seconds:,.0f} s old'}"


def _stopped(one: TableState) -> str:
    errors = f"{one.consecutive_errors} errors in a row" if one.consecutive_errors else one.status
    return f"{one.stream_table}: {errors}" + (f": {one.last_error}" if one.last_error else "")


def _failing(one: TableState) -> str:
    if one.consecutive_errors:
        return _stopped(one)
    return f"{one.stream_table}: tried again now and then: {one.last_error}"


def _sinks(report: StatusReport) -> Iterator[str]:
    delivered = sum(one.status is DeliveryStatus.DELIVERED for one in report.sinks)
    if report.sinks:
        yield f"{delivered} of {len(report.sinks)} up to date"
    for one in report.sinks:
        if one.status is not DeliveryStatus.DELIVERED:
            error = f": {one.last_error}" if one.last_error else ""
            yield f"{one.stream_table} -> {one.lake_table}: {one.status.value}{error}"
