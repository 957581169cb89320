"""When a stream table is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgtrickle.model.scheduling.schedule import parse_schedule
from pgtrickle.scheduler.due import AT_ONCE, LONGEST_BACKOFF, Attempt, backoff, due_at

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIVE_MINUTES = parse_schedule("5m")
SECOND = parse_schedule("1s")


def test_never_refreshed_table_is_due_at_once() -> None:
    assert due_at(FIVE_MINUTES, None, None) == AT_ONCE


def test_catalog_decides_until_the_first_attempt() -> None:
    assert due_at(FIVE_MINUTES, NOON, None) == NOON + timedelta(minutes=5)


def test_attempt_counts_more_than_the_catalog() -> None:
    attempt = Attempt(NOON + timedelta(hours=1))

    assert due_at(FIVE_MINUTES, NOON, attempt) == NOON + timedelta(hours=1, minutes=5)


def test_failure_waits_longer_than_a_short_schedule() -> None:
    assert due_at(SECOND, NOON, Attempt(NOON, failures=4)) == NOON + timedelta(seconds=8)


def test_failure_never_waits_less_than_the_schedule() -> None:
    assert due_at(FIVE_MINUTES, NOON, Attempt(NOON, failures=1)) == NOON + timedelta(minutes=5)


@pytest.mark.parametrize("failures", [10, 100, 10**9])
def test_backoff_has_an_end(failures: int) -> None:
    assert backoff(failures) == LONGEST_BACKOFF
