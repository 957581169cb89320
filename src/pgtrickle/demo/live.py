"""The demo's face: a live table on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pgtrickle.demo.board import Board
from pgtrickle.demo.summary import Summary, percentile
from pgtrickle.errors import TrickleError
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action
from pgtrickle.scheduler.pace import Cycle

_SHOWN_REFRESHES = 12


class Display:
    """Shows the steps, each refresh as it happens, and the summary."""

    def __init__(self, console: Console, summary: Summary) -> None:
        self.board: Board | None = None
        self._console = console
        self._summary = summary
        self._began = time.monotonic()
        self._latest: deque[tuple[float, RefreshReport]] = deque(maxlen=_SHOWN_REFRESHES)
        self._live: Live | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def step(self, doing: str) -> None:
        """Say what happens next."""
        self._print(Text(f"[{self.elapsed:5.1f} s] {doing}"))

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keep the table of refreshes moving for the length of a block."""
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            yield
            return
        with Live(
            console=self._console, refresh_per_second=8, get_renderable=self._render
        ) as self._live:
            try:
                yield
            finally:
                self._live.refresh()
        self._live = None

    def refreshed(self, report: RefreshReport) -> None:
        """Show a refresh and count it."""
        self._summary.of(report.stream_table).add(report)
        if report.action is Action.NO_DATA:
            return
        self._latest.append((self.elapsed, report))
        if self._live is None:
            self._print(Text(_line(self.elapsed, report)))

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        """Show a failure; the loop tries again."""
        message = f"{name or 'pgtrickle'}: error {error.code}: {error}"
        self._summary.errors.append(message)
        self._print(Text(f"[{self.elapsed:5.1f} s] {message}, again in {retry_in}", style="red"))

    def resumed(self, name: str) -> None:
        """Show that errors are over which had suspended a stream table."""
        self._print(Text(f"[{self.elapsed:5.1f} s] {name}: works again"))

    def told(self, table: Table) -> None:
        """Print a table, where nothing moves."""
        if self._live is None:
            self._print(table)

    def fell_behind(self, cycle: Cycle) -> None:
        """Do nothing."""

    def sink_changed(self, news: SinkNews) -> None:
        """Show a copy in the lake that failed or recovered; the shop has none of its own."""
        what = "up to date again" if news.recovered else news.sink.error
        self._print(Text(f"{news.sink.stream_table} in the lake: {what}"))

    def finish(self) -> None:
        """Print the summary."""
        changes = self._summary.changes
        self._print(Text())
        self._print(_totals(self._summary))
        self._print(
            Text(
                f"{changes.transactions} transactions: {changes.inserted} rows inserted,"
                f" {changes.updated} updated, {changes.deleted} deleted"
            )
        )
        verdict = (
            Text("every stream table equals PostgreSQL's own answer", "bold green")
            if self._summary.ok
            else Text("A STREAM TABLE DIFFERS from PostgreSQL's own answer", "bold red")
        )
        self._print(Text(f"finished in {self.elapsed:.0f} s: ") + verdict)

    def _print(self, renderable: Text | Table) -> None:
        self._console.print(renderable, soft_wrap=True)

    def _render(self) -> Group:
        changes = self._summary.changes
        heading = Text(
            f"{self.elapsed:5.1f} s   {changes.transactions} transactions,"
            f" +{changes.inserted} ~{changes.updated} -{changes.deleted} rows",
            style="bold",
        )
        if self.board is not None:
            return Group(Text(), heading, self.board.drawn(), _totals(self._summary))
        return Group(Text(), heading, _listing(self._latest), _totals(self._summary))


def _line(elapsed: float, report: RefreshReport) -> str:
    return (
        f"[{elapsed:5.1f} s] {_short(report.stream_table):<18} {report.action.value:<12}"
        f" +{report.rows_inserted:<6} -{report.rows_deleted:<6} {report.duration_ms:8,.0f} ms"
    )


def _listing(refreshes: deque[tuple[float, RefreshReport]]) -> Table:
    table = _table("time", "stream table", "action", "+ rows", "- rows", "latency")
    for elapsed, report in refreshes:
        table.add_row(
            f"{elapsed:.1f} s",
            _short(report.stream_table),
            report.action.value,
            f"{report.rows_inserted:,}",
            f"{report.rows_deleted:,}",
            f"{report.duration_ms:,.0f} ms",
        )
    for _ in range(_SHOWN_REFRESHES - len(refreshes)):
        table.add_row()
    return table


def _totals(summary: Summary) -> Table:
    table = _table(
        "stream table", "no data", "diff", "full", "+ rows", "- rows", "p50", "p95", "verified"
    )
    for name, one in summary.tables.items():
        table.add_row(
            _short(name),
            str(one.actions[Action.NO_DATA]),
            str(one.actions[Action.DIFFERENTIAL]),
            str(one.actions[Action.FULL] + one.actions[Action.REINITIALIZE]),
            f"{one.rows_inserted:,}",
            f"{one.rows_deleted:,}",
            _milliseconds(percentile(one.latencies_ms, 50)),
            _milliseconds(percentile(one.latencies_ms, 95)),
            "" if one.verified is None else "yes" if one.ok else "NO",
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    words = {"stream table", "action", "verified"}
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right")
    return table


def _short(name: str) -> str:
    return name.removeprefix("public.")


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} ms"
