"""Tasks: refresh a stream table, wait until it is fresh, verify it."""

import time
from datetime import timedelta

from prefect import get_run_logger, task

import pgtrickle
from prefect_pgtrickle.block import PgTrickleDatabase


class NotFreshError(Exception):
    """A stream table did not become fresh in time."""


class NotEqualError(Exception):
    """A stream table differs from the answer to its query."""


@task(task_run_name="refresh {name}")
def refresh_stream_table(
    database: PgTrickleDatabase, name: str, *, full: bool = False
) -> pgtrickle.RefreshReport:
    """Refresh a stream table and return what was done."""
    with database.client() as trickle:
        report = trickle.refresh_stream_table(name, full=full)
    get_run_logger().info(
        "%s: %s, %s rows inserted, %s deleted: %s",
        report.stream_table,
        report.action.value,
        report.rows_inserted,
        report.rows_deleted,
        report.reason,
    )
    return report


@task(task_run_name="wait for {name}")
def wait_until_fresh(
    database: PgTrickleDatabase,
    name: str,
    *,
    max_age: timedelta,
    timeout: timedelta = timedelta(minutes=10),
    poll_seconds: float = 2.0,
) -> float:
    """Wait until the contents are younger than ``max_age``; return their age in seconds.

    It asks for no refresh: the daemon's schedule does that, or another task.
    """
    until = time.monotonic() + timeout.total_seconds()
    with database.client() as trickle:
        while True:
            age = trickle.insight.get_staleness(name)
            if age is not None and age <= max_age.total_seconds():
                return age
            if time.monotonic() >= until:
                told = "was never loaded" if age is None else f"is {age:.0f} s old"
                raise NotFreshError(f"{name} {told} after {timeout}; wanted within {max_age}")
            time.sleep(poll_seconds)


@task(task_run_name="verify {name}")
def verify_stream_table(database: PgTrickleDatabase, name: str) -> pgtrickle.VerifyReport:
    """Compare a stream table with PostgreSQL's own answer; fail if they differ."""
    with database.client() as trickle:
        found = trickle.verify_stream_table(name)
    if not found.ok:
        raise NotEqualError(f"{name}: {found.missing} rows are missing, {found.extra} too many")
    return found
