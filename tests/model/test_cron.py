"""Cron expressions: moments of a wall clock, also where clocks are set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrickle.errors import SettingError
from pgtrickle.model.scheduling.cron import parse_cron

BERLIN = ZoneInfo("Europe/Berlin")


def nexts(text: str, after: datetime, number: int = 3) -> list[str]:
    """Return what the clock in Berlin shows at the next moments."""
    found = []
    for _ in range(number):
        after = parse_cron(text).next_after(after, "Europe/Berlin")
        found.append(f"{after.astimezone(BERLIN):%m-%d %H:%M %z}")
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/20 * * * *", ["01-01 12:20 +0100", "01-01 12:40 +0100", "01-01 13:00 +0100"]),
        ("@hourly", ["01-01 13:00 +0100", "01-01 14:00 +0100", "01-01 15:00 +0100"]),
        ("@daily", ["01-02 00:00 +0100", "01-03 00:00 +0100", "01-04 00:00 +0100"]),
        ("@weekly", ["01-04 00:00 +0100", "01-11 00:00 +0100", "01-18 00:00 +0100"]),
        ("@monthly", ["02-01 00:00 +0100", "03-01 00:00 +0100", "04-01 00:00 +0200"]),
        ("5,10 7-8 * * *", ["01-02 07:05 +0100", "01-02 07:10 +0100", "01-02 08:05 +0100"]),
        ("0 0 * * MON-FRI", ["01-02 00:00 +0100", "01-05 00:00 +0100", "01-06 00:00 +0100"]),
        ("0 0 * * 7", ["01-04 00:00 +0100", "01-11 00:00 +0100", "01-18 00:00 +0100"]),
        ("0 0 10 * MON", ["01-05 00:00 +0100", "01-10 00:00 +0100", "01-12 00:00 +0100"]),
        ("0 0 29 FEB *", ["02-29 00:00 +0100", "02-29 00:00 +0100", "02-29 00:00 +0100"]),
        ("15 30 6 * * *", ["01-02 06:30 +0100", "01-03 06:30 +0100", "01-04 06:30 +0100"]),
    ],
)
def test_next_moments(text: str, expected: list[str]) -> None:
    assert nexts(text, datetime(2026, 1, 1, 12, tzinfo=BERLIN)) == expected


def test_hour_that_does_not_exist_comes_later() -> None:
    day_before = datetime(2026, 3, 28, 12, tzinfo=BERLIN)

    assert nexts("30 2 * * *", day_before, 2) == ["03-29 03:30 +0200", "03-30 02:30 +0200"]


def test_fixed_hour_comes_once_when_clocks_are_set_back() -> None:
    day_before = datetime(2026, 10, 24, 12, tzinfo=BERLIN)

    assert nexts("30 2 * * *", day_before, 2) == ["10-25 02:30 +0200", "10-26 02:30 +0100"]


def test_what_happens_every_half_hour_goes_on_when_clocks_are_set_back() -> None:
    before = datetime(2026, 10, 25, 1, 45, tzinfo=BERLIN)

    assert nexts("*/30 * * * *", before, 5) == [
        "10-25 02:00 +0200",
        "10-25 02:30 +0200",
        "10-25 02:00 +0100",
        "10-25 02:30 +0100",
        "10-25 03:00 +0100",
    ]


def test_zone_of_the_expression_comes_first() -> None:
    cron = parse_cron("CRON_TZ=Asia/Tokyo 0 9 * * *")

    after = cron.next_after(datetime(2026, 1, 1, 12, tzinfo=UTC), "Europe/Berlin")

    assert after == datetime(2026, 1, 2, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "* * * * FUNDAY",
        "5-1 * * * *",
        "*/0 * * * *",
        "1,,2 * * * *",
        "* * * *",
        "0 0 30 2 *",
        "@fortnightly",
        "CRON_TZ=Mars/Olympus * * * * *",
        "CRON_TZ=../../etc/passwd * * * * *",
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(SettingError):
        parse_cron(text)


@given(
    minute=st.integers(0, 59),
    step=st.integers(1, 30),
    after=st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)),
)
def test_next_is_the_first_minute_that_matches(minute: int, step: int, after: datetime) -> None:
    cron = parse_cron(f"{minute}-59/{step} * * * *")

    found = cron.next_after(after, "America/New_York")

    moment = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
    while moment.astimezone(ZoneInfo("America/New_York")).minute not in cron.minutes:
        moment += timedelta(minutes=1)
    assert found == moment
