"""Service levels: tier and schedule follow from them, misses are counted, and alerts tell."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgtrickle.errors import SettingError, SlaTooSmallError
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.status_report import ServiceLevel
from pgtrickle.service.scheduling.service_levels import watch_service_levels
from tests.labs.courses import Recorded, record
from tests.labs.hearing import PATIENCE, heard
from tests.labs.lab import Lab

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def counts(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (id int PRIMARY KEY)")
    lab.trickle.create_stream_table("counts", "SELECT count(*) AS n FROM t", "1m")
    return lab


@pytest.fixture
def listener(counts: Lab) -> Iterator[Connection]:
    with psycopg.connect(counts.trickle.dsn, autocommit=True) as connection:
        connection.execute("LISTEN pg_trickle_alert")
        yield connection


def back(**ago: float) -> datetime:
    return datetime.now(UTC) - timedelta(**ago)


def took(*seconds: float) -> list[Recorded]:
    """Return refreshes of the last hours, the latest five minutes ago."""
    return [Recorded(back(minutes=5 * (n + 1)), one) for n, one in enumerate(seconds)]


def promise(lab: Lab, sla: str) -> tuple[Tier, str]:
    agreed = lab.trickle.scheduler.set_stream_table_sla("counts", sla)
    table = lab.trickle.get_stream_table("counts")
    assert (agreed.tier, agreed.schedule) == (table.tier, table.schedule)
    return table.tier, table.schedule


def promised_yesterday(lab: Lab, sla: str) -> None:
    """Promise something, as if that had been a day ago."""
    promise(lab, sla)
    lab.run("UPDATE pgtrickle.pgt_service_levels SET set_at = now() - interval '1 day'")


def level(lab: Lab) -> ServiceLevel:
    [found] = lab.trickle.insight.sla_summary()
    return found


def alerts(lab: Lab, listener: Connection) -> list[dict[str, Any]]:
    """Return the alerts of one watch."""
    watch_service_levels(lab.trickle._runtime, lab.connection)
    return [json.loads(one) for one in heard(lab, listener, "pg_trickle_alert")]


def spent(lab: Lab, listener: Connection) -> list[tuple[str, int, float, float]]:
    """Return the alerts of one watch that are about budgets."""
    found = [one for one in alerts(lab, listener) if one["event"] == "sla_budget_spent"]
    keys = ("name", "spent_percent", "sla_s", "error_budget_remaining")
    return [tuple(one[key] for key in keys) for one in found]


@pytest.mark.parametrize(
    ("sla", "tier", "schedule"),
    [("4s", Tier.HOT, "3s"), ("30s", Tier.WARM, "13s"), ("1h", Tier.COLD, "1m")],
)
def test_tier_and_schedule_keep_the_level(counts: Lab, sla: str, tier: Tier, schedule: str):
    """A schedule stays if it keeps the level: 1m in the tier cold is ten minutes."""
    record(counts, "counts", took(*[0.5] * 30))

    assert promise(counts, sla) == (tier, schedule)

    assert level(counts).sla_s == {"4s": 4, "30s": 30, "1h": 3600}[sla]


def test_level_that_was_not_reached_is_refused_and_changes_nothing(counts: Lab):
    record(counts, "counts", took(*[3.0] * 30))

    with pytest.raises(SlaTooSmallError, match="refreshes took up to 3 s") as caught:
        promise(counts, "5s")

    assert "Promise 6 s or more" in str(caught.value.hint)
    assert level(counts).sla_s is None
    assert counts.trickle.get_stream_table("counts").schedule == "1m"
    assert promise(counts, "6s")[0] is Tier.WARM


def test_cron_and_immediate_have_no_level(counts: Lab):
    counts.trickle.alter_stream_table("counts", schedule="@hourly")
    with pytest.raises(SettingError, match="cron"):
        promise(counts, "1m")
    counts.trickle.alter_stream_table("counts", schedule="1m", refresh_mode="IMMEDIATE")
    with pytest.raises(SettingError, match="IMMEDIATE"):
        promise(counts, "1m")


def test_level_is_taken_away(counts: Lab):
    promise(counts, "30s")
    counts.trickle.scheduler.set_stream_table_sla("counts", None)

    assert (level(counts).sla_s, level(counts).breach_s) == (None, None)
    assert counts.trickle.get_stream_table("counts").tier is Tier.WARM


def test_budget_is_one_percent_of_the_time(counts: Lab):
    """Half a minute may pass between two looks: 30 s and 40 s are 10 s beyond a minute."""
    promised_yesterday(counts, "1m")
    counts.trickle.alter_stream_table("counts", schedule="3s")  # thirty seconds: the tier is cold
    record(counts, "counts", took(40, 1, 1, 1, 1))

    found = level(counts)

    assert found.breach_s == pytest.approx(10, abs=0.1)
    assert found.error_budget_remaining == pytest.approx(1 - 10 / 864, abs=0.001)
    assert (found.refreshes, found.error_rate) == (5, 0)
    [hour] = counts.trickle.insight.sla_summary(1)
    assert hour.error_budget_remaining == pytest.approx(1 - 10 / 36, abs=0.001)


def test_failed_attempts_and_what_then_succeeds_are_one_wait(counts: Lab):
    promised_yesterday(counts, "1m")
    counts.trickle.alter_stream_table("counts", schedule="1s")
    record(
        counts,
        "counts",
        [
            Recorded(back(minutes=30), 1),
            Recorded(back(minutes=20), 1, status="FAILED"),
            Recorded(back(minutes=15), 1, status="FAILED"),
            Recorded(back(minutes=10), 1),
        ],
    )

    # Ten minutes and a second from the first attempt on, ten seconds before it, less one minute.
    assert level(counts).breach_s == pytest.approx(601 + 10 - 60, abs=0.1)
    assert level(counts).error_rate == 0.5

    counts.run(
        "DELETE FROM pgtrickle.pgt_refresh_history WHERE start_time > now() - '12m'::interval"
    )
    assert level(counts).breach_s == pytest.approx(1200 + 10 - 60, abs=5)  # up to now


def test_what_nobody_refreshes_is_late_too(counts: Lab):
    promised_yesterday(counts, "1m")
    record(counts, "counts", [])
    assert level(counts).breach_s == 0
    counts.run(
        "UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - interval '2 hours',"
        " data_timestamp = now() - interval '2 hours'"
    )

    assert level(counts).breach_s == pytest.approx(7140, abs=5)
    assert level(counts).error_budget_remaining == 0


def test_window_is_a_setting_and_an_argument(counts: Lab):
    record(counts, "counts", [Recorded(back(hours=3), 1), Recorded(back(minutes=3), 1)])
    count = "SELECT refreshes FROM pgtrickle.sla_summary()"

    assert counts.value(count) == 2
    counts.run("SET pg_trickle.sla_window_hours = '2'")
    try:
        assert counts.value(count) == 1
        assert counts.value("SELECT refreshes FROM pgtrickle.sla_summary(24)") == 2
    finally:
        counts.run("RESET pg_trickle.sla_window_hours")
    with pytest.raises(psycopg.Error, match="a window of -1 hours"):
        counts.run("SELECT pgtrickle.sla_summary(-1)")


def test_error_budget_is_a_setting(counts: Lab):
    promised_yesterday(counts, "1m")
    record(counts, "counts", took(1, 1, 550))

    def spent_share() -> float:
        return 1 - (level(counts).error_budget_remaining or 0)

    of_one_percent = spent_share()

    counts.run("SELECT pgtrickle.set_setting('sla_error_budget_percent', '2')")
    try:
        assert spent_share() == pytest.approx(of_one_percent / 2)
    finally:
        counts.run("SELECT pgtrickle.set_setting('sla_error_budget_percent', NULL)")


def test_alerts_at_half_of_the_budget_and_at_its_end(counts: Lab, listener: Connection):
    promised_yesterday(counts, "1m")
    counts.trickle.alter_stream_table("counts", schedule="1s")
    record(counts, "counts", took(1, 1, 400))
    assert spent(counts, listener) == []

    record(counts, "counts", took(1, 1, 550))
    [(name, percent, sla, left)] = spent(counts, listener)
    assert (name, percent, sla) == ("public.counts", 50, 60)
    assert 0.4 < left < 0.5
    assert spent(counts, listener) == []

    record(counts, "counts", took(1, 1, 950))
    assert spent(counts, listener) == [("public.counts", 100, 60, 0)]
    assert spent(counts, listener) == []

    record(counts, "counts", took(1, 1, 1))  # the window went on
    assert spent(counts, listener) == []
    record(counts, "counts", took(1, 1, 550))
    assert [percent for _, percent, *_ in spent(counts, listener)] == [50]


def test_breach_is_predicted_once_in_a_while(counts: Lab, listener: Connection):
    promise(counts, "1m")
    record(counts, "counts", took(*[1.0] * 20))
    assert alerts(counts, listener) == []

    record(counts, "counts", took(*[25.0] * 20))  # after up to fifty seconds
    [alert] = alerts(counts, listener)
    assert alert == {
        "event": "predicted_sla_breach",
        "name": "public.counts",
        "sla_s": 60,
        "predicted_s": 75,
    }
    assert alerts(counts, listener) == []

    counts.run("UPDATE pgtrickle.pgt_service_levels SET predicted_at = now() - interval '301 s'")
    assert [one["event"] for one in alerts(counts, listener)] == ["predicted_sla_breach"]


def test_two_watchers_tell_once(counts: Lab, listener: Connection):
    promise(counts, "1m")
    record(counts, "counts", took(*[25.0] * 20))
    taken: list[int] = []

    def take() -> None:
        with psycopg.connect(counts.trickle.dsn, autocommit=True) as own:
            start.wait()
            taken.append(len(own.execute("SELECT pgtrickle.take_sla_alerts(24, 300)").fetchall()))

    start = threading.Barrier(4)
    threads = [threading.Thread(target=take) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert sorted(taken) == [0, 0, 0, 1]


def test_daemon_watches(counts: Lab, listener: Connection):
    promise(counts, "1m")
    record(counts, "counts", took(*[25.0] * 20))
    stop = threading.Event()
    thread = threading.Thread(target=counts.trickle.run, args=[stop])
    thread.start()
    try:
        [alert] = list(listener.notifies(timeout=PATIENCE, stop_after=1))
    finally:
        stop.set()
        thread.join(30)

    assert json.loads(alert.payload)["event"] == "predicted_sla_breach"


def test_level_goes_with_its_stream_table(counts: Lab):
    promise(counts, "1m")
    counts.trickle.rename_stream_table("counts", "renamed")
    assert level(counts).sla_s == 60
    counts.trickle.drop_stream_table("renamed")

    assert counts.value("SELECT count(*) FROM pgtrickle.pgt_service_levels") == 0
