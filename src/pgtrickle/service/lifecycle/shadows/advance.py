"""One step of a shadow build: refresh the shadow, and switch or give up when it is time for that.

A shadow has converged when its last refresh was short, for then the next one is, too, and with it
the switch. A shadow that is always recomputed in full comes no closer than it is after its load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.shadows.builds import (
    count_lag,
    find_active_build,
    record_failure,
    record_round,
)
from pgtrickle.catalog.stream_tables import get_stream_table_by_id
from pgtrickle.errors import (
    CatalogMissingError,
    CatalogOutdatedError,
    CatalogTooNewError,
    InternalError,
    LeaseHeldError,
    RefreshCancelledError,
    Retry,
    ServerError,
    ShadowNotConvergingError,
    SparkError,
    StandbyError,
    TrickleError,
)
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.scheduling.schedule import parse_schedule
from pgtrickle.model.shadows.build import ShadowBuild, ShadowState
from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode, StreamTable
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.lifecycle.replacing.replacement import Replacement
from pgtrickle.service.lifecycle.shadows.cancel import roll_back
from pgtrickle.service.lifecycle.shadows.promote import get_active_build, switch
from pgtrickle.service.refreshing.dispatch import refresh_stream_table
from pgtrickle.service.runtime import Runtime

MOST_FAILURES = 5  # in a row, of those that may pass
_LONGEST_PAUSE = timedelta(minutes=1)
# They say nothing about the query.
_OF_OTHERS = (
    CatalogMissingError,
    CatalogOutdatedError,
    CatalogTooNewError,
    LeaseHeldError,
    RefreshCancelledError,
    StandbyError,
)


def advance(runtime: Runtime, build: ShadowBuild) -> None:
    """Refresh a shadow; switch if it has converged, and is not held.

    Raises the error that occurs. One that does not pass rolls the build back, and so does one that
    does not pass for long.
    """
    try:
        with _bugs_named():
            _step(runtime, build)
    except _OF_OTHERS:
        raise
    except TrickleError as error:
        with runtime.connection() as connection:
            now = find_active_build(connection, build.stream_table_id)
        if now is None or now.shadow_id != build.shadow_id:
            return  # somebody has promoted or cancelled it meanwhile
        passes = error.retry is not Retry.NEVER or isinstance(error, ServerError | SparkError)
        if passes and now.failures + 1 < MOST_FAILURES:
            with runtime.connection() as connection:
                record_failure(connection, now, error, _pause_after(runtime, now.failures))
        else:
            roll_back(runtime, now, error)
        raise


@contextmanager
def _bugs_named() -> Iterator[None]:
    """Turn what nobody expects into an error with a code, which rolls the build back."""
    try:
        yield
    except (TrickleError, psycopg.Error):
        raise
    except Exception as error:
        raise InternalError(f"unexpected {type(error).__name__}: {error}") from error


def _step(runtime: Runtime, build: ShadowBuild) -> None:
    with runtime.connection() as connection:
        stream_table = get_stream_table_by_id(connection, build.stream_table_id)
        build, shadow = get_active_build(connection, stream_table)
        if build.state is ShadowState.LOADING:
            compiled = compile_stream_table(connection, shadow, Bounds.of(runtime.settings))
    if build.state is ShadowState.LOADING:
        Replacement(runtime, stream_table, shadow, compiled).settle_capture()
    began = time.monotonic()
    report = refresh_stream_table(runtime, shadow.name, initiated_by=InitiatedBy.INITIAL)
    took_ms = (time.monotonic() - began) * 1000
    converged = _note(runtime, stream_table, build, shadow, report, took_ms)
    if converged and not build.hold:
        switch(runtime, stream_table, build, shadow)


def _note(
    runtime: Runtime,
    stream_table: StreamTable,
    build: ShadowBuild,
    shadow: StreamTable,
    report: RefreshReport,
    took_ms: float,
) -> bool:
    """Record a refresh of a shadow; return whether it has converged, or raise ST227."""
    settings = runtime.settings
    with runtime.connection() as connection:
        lag = count_lag(connection, shadow.id) or 0
        loaded = build.state is not ShadowState.LOADING
        short = loaded and took_ms <= settings.shadow_converged_ms
        full = shadow.effective_refresh_mode is RefreshMode.FULL
        recomputed = full or (loaded and report.action is Action.FULL)
        converged = lag == 0 or short or recomputed
        closer = build.least_lag is None or lag < build.least_lag
        stalled = 0 if converged or closer else build.stalled + 1
        record_round(
            connection,
            build,
            state=ShadowState.READY if converged else ShadowState.FOLLOWING,
            rows=report.rows_inserted - report.rows_deleted,
            stalled=stalled,
            lag=lag,
            took_ms=took_ms,
            pause=_pause(runtime, stream_table, waits=converged and build.hold),
            left=timedelta() if converged else _estimate(build, lag, took_ms),
        )
    most = settings.shadow_stalled_refreshes
    if most and stalled >= most:
        raise ShadowNotConvergingError(
            f'the shadow of "{stream_table.name}" does not catch up: its last {stalled} refreshes'
            f" left {lag} changes or more, each took longer than {settings.shadow_converged_ms} ms",
            hint="Try again when there are fewer changes, or find out with explain what the new"
            " query costs; the setting shadow_converged_ms says how long a refresh may take.",
        )
    return converged


def _estimate(build: ShadowBuild, lag: int, took_ms: float) -> timedelta | None:
    """Return how long a build still takes if the lag goes on shrinking as it does.

    Each refresh takes as long as the changes that the last one left: a geometric series.
    """
    if not build.lag_changes or lag >= build.lag_changes:
        return None
    share = lag / build.lag_changes
    return timedelta(milliseconds=took_ms * share / (1 - share))


def _pause(runtime: Runtime, stream_table: StreamTable, *, waits: bool) -> timedelta:
    """Return how long a shadow rests; one that ``waits`` for somebody follows the schedule."""
    throttle = timedelta(milliseconds=runtime.settings.shadow_refresh_throttle_ms)
    if not waits:
        return throttle
    every = parse_schedule(stream_table.schedule).every
    return max(throttle, _LONGEST_PAUSE if every is None else every)


def _pause_after(runtime: Runtime, failures: int) -> timedelta:
    throttle = timedelta(milliseconds=runtime.settings.shadow_refresh_throttle_ms)
    return min(max(throttle, timedelta(seconds=1)) * (1 << failures), _LONGEST_PAUSE)
