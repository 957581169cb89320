"""Metrics: the figures of the database, and of each stream table in the last day."""

from __future__ import annotations

from collections.abc import Iterator

from pgtrickle.catalog.console.picture import Picture
from pgtrickle.console.figures import age, amount, milliseconds, size
from pgtrickle.console.sheet import Column, Line, Sheet, Tone, cell, heading, words
from pgtrickle.console.view import View
from pgtrickle.model.status_report import MetricsSummary, ServiceLevel

COLUMNS = (
    Column("", 20, grows=True),
    Column("", 9, right=True),
    Column("", 7, right=True),
    Column("", 7, right=True),
    Column("", 7, right=True),
    Column("", 7, right=True),
    Column("", 8, right=True),
    Column("", 8, rank=1, right=True),
)
_TITLES = ("stream table", "refreshes", "p50", "p99", "age", "failed", "promised", "budget")


def draw(view: View) -> Sheet:
    """Draw the figures of all, and a line for each stream table, the slowest first."""
    return Sheet(COLUMNS, tuple(_lines(view.picture)), "no figures")


def _lines(picture: Picture) -> Iterator[Line]:
    for one in picture.metrics or ():
        yield from _summary(one)
    yield heading("the last 24 hours")
    yield Line(tuple(cell(one, Tone.DIM) for one in _TITLES))
    for level in sorted(picture.service_levels or (), key=lambda one: -(one.p99_ms or 0)):
        yield _level(level)


def _summary(one: MetricsSummary) -> Iterator[Line]:
    yield heading(f"{one.stream_tables:,} stream tables")
    yield words(
        f"  {one.active:,} active, {one.suspended:,} suspended, {one.failing:,} failing,"
        f" {one.falling_behind:,} fall behind; the oldest contents"
        f" {age(one.oldest_contents_seconds)}",
        Tone.BAD if one.failing or one.suspended else Tone.PLAIN,
    )
    yield heading("the last hour")
    yield words(
        f"  {one.refreshes:,} refreshes, {one.failures:,} failures,"
        f" p50 {milliseconds(one.p50_ms)}, p99 {milliseconds(one.p99_ms)},"
        f" +{amount(one.rows_inserted)} -{amount(one.rows_deleted)} rows",
        Tone.WARNING if one.failures else Tone.PLAIN,
    )
    yield heading("what waits")
    yield words(
        f"  changes: about {amount(one.buffer_rows)} in {size(one.buffer_bytes)},"
        f" for {age(one.capture_lag_seconds)} at most; slots keep {size(one.slot_lag_bytes)}"
    )
    yield words(
        f"  requests: {one.requests_queued:,}; statements that took a whole table's lock:"
        f" {one.lock_fallbacks:,}"
    )


def _level(one: ServiceLevel) -> Line:
    left = one.error_budget_remaining
    spent = left is not None and left <= 0
    return Line(
        (
            cell(one.stream_table),
            cell(amount(one.refreshes), order=one.refreshes),
            cell(milliseconds(one.p50_ms), order=one.p50_ms),
            cell(milliseconds(one.p99_ms), order=one.p99_ms),
            cell(age(one.freshness_lag_s), order=one.freshness_lag_s),
            cell("-" if one.error_rate is None else f"{one.error_rate:.1%}"),
            cell("" if one.sla_s is None else age(one.sla_s)),
            cell("-" if left is None else f"{left:.0%}", Tone.BAD if spent else Tone.PLAIN),
        ),
        one.stream_table,
    )
