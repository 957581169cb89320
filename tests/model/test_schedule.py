"""Durations and nothing else are schedules, for now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgtrickle.errors import SettingError
from pgtrickle.model.scheduling.schedule import Schedule, parse_schedule


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("1s", timedelta(seconds=1)),
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1w2d3h4m5s", timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5)),
        (" 2d ", timedelta(days=2)),
        ("520w", timedelta(weeks=520)),
    ],
)
def test_duration_is_read(text: str, every: timedelta) -> None:
    assert parse_schedule(text) == Schedule(text.strip(), every)


@pytest.mark.parametrize("text", ["calculated", "CALCULATED", " Calculated "])
def test_calculated_means_every_second(text: str) -> None:
    assert parse_schedule(text) == Schedule("calculated", timedelta(seconds=1))


@pytest.mark.parametrize(
    "text",
    ["", " ", "5", "m", "5 m", "30m1h", "1m1m", "-5m", "1.5h", "5M", "fast", "5mm", "٣s", "5m;"],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="is not a duration") as caught:
        parse_schedule(text)

    assert "1h30m" in caught.value.hint


@pytest.mark.parametrize("text", ["0s", "0h0m", "521w", "999999999w999999999d"])
def test_duration_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="between 1 second and 520 weeks"):
        parse_schedule(text)


@pytest.mark.parametrize(
    "text", ["* * * * *", "*/5 0 * * 1-5", "0 0 * * * *", "@hourly", "@daily", "@Weekly"]
)
def test_cron_has_no_length(text: str) -> None:
    schedule = parse_schedule(f" {text} ")

    assert (schedule.text, schedule.every) == (text, None)
    assert schedule.cron is not None
    assert not schedule.calculated


def test_next_after_a_duration_counts_from_the_start() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    assert parse_schedule("90s").next_after(noon) == noon + timedelta(seconds=90)
