"""What the scheduler says of its pace: on record, on the channel, in status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from pgtrickle.scheduler.admission import Saturation
from pgtrickle.scheduler.pace import ON_TIME, Cycle, Pace
from pgtrickle.service.scheduling.leadership import standing_for_leader
from tests.labs.lab import Lab

SECOND = timedelta(seconds=1)
STRETCH = "SELECT interval_stretch FROM pgtrickle.stream_tables_info WHERE pgt_name = 'slow'"


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (a int)")
    lab.create("slow", "SELECT count(*) AS n FROM t")
    return lab


@pytest.fixture
def alerts(shop: Lab) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop.trickle.dsn, autocommit=True) as connection:
        connection.execute("LISTEN pg_trickle_alert")
        yield connection


def heard(alerts: psycopg.Connection) -> list[dict[str, object]]:
    return [json.loads(one.payload) for one in alerts.notifies(timeout=0.5)]


def note(lab: Lab, before: Pace, after: Pace, took: float) -> None:
    table = lab.trickle.get_stream_table("slow")
    lab.trickle.daemon.note_cycles([Cycle(table, SECOND, took * SECOND, before, after)])


def checks(lab: Lab) -> dict[str, tuple[str, str]]:
    found = lab.rows("SELECT check_name, severity, detail FROM pgtrickle.health_check()")
    return {str(name): (str(severity), str(detail)) for name, severity, detail in found}


def test_each_late_refresh_is_an_alert_and_the_pace_lasts(shop: Lab, alerts: psycopg.Connection):
    note(shop, Pace(2), Pace(0, 2), 3)

    assert heard(alerts) == [
        {
            "event": "scheduler_falling_behind",
            "name": "public.slow",
            "took_seconds": 3,
            "interval_seconds": 1,
            "late": 0,
            "stretch": 2,
        }
    ]
    table = shop.trickle.get_stream_table("slow")
    assert shop.trickle.daemon.list_paces() == {table.id: Pace(0, 2)}
    [shown] = shop.trickle.scheduler.falling_behind()
    assert (shown.stream_table, shown.stretch) == ("public.slow", 2)
    assert (shown.effective_interval_seconds, shown.took_seconds) == (2, 3)
    assert shown.stretched_at is not None
    assert shop.value(STRETCH) == 2
    assert checks(shop)["pace"] == ("WARNING", "public.slow takes 3.0 s, is due every 2 s")


def test_refresh_within_the_stretched_interval_is_no_alert(shop: Lab, alerts: psycopg.Connection):
    note(shop, Pace(1, 2), Pace(0, 2), 1.5)

    assert heard(alerts) == []
    assert shop.value(STRETCH) == 2


def test_one_on_time_clears_the_record(shop: Lab):
    note(shop, Pace(2), Pace(0, 2), 3)
    note(shop, Pace(0, 2), ON_TIME, 0.5)

    assert shop.trickle.daemon.list_paces() == {}
    assert list(shop.trickle.scheduler.falling_behind()) == []
    assert shop.value(STRETCH) == 1
    assert checks(shop)["pace"] == ("OK", "")


def test_stream_table_that_was_dropped_meanwhile_is_no_error(shop: Lab):
    table = shop.trickle.get_stream_table("slow")
    shop.trickle.drop_stream_table("slow")
    shop.trickle.daemon.note_cycles([Cycle(table, SECOND, 3 * SECOND, ON_TIME, Pace(1))])

    assert shop.trickle.daemon.list_paces() == {}


def test_saturation_is_told_shown_and_ends_with_the_leader(shop: Lab, alerts: psycopg.Connection):
    daemon = shop.trickle.daemon
    with standing_for_leader(shop.trickle._runtime) as leadership:
        assert leadership.leads
        daemon.note_saturation(Saturation("all workers are busy", 4, 9, 4, 4))
        severity, detail = checks(shop)["load"]
        [told] = heard(alerts)
        assert (told["event"], told["waiting"]) == ("scheduler_saturated", 9)
        assert severity == "WARNING"
        assert detail.startswith(
            "all workers are busy: 9 refreshes wait, 4 at a time, hot stream tables first"
        )
        leadership.ask()  # the same leader goes on
        assert checks(shop)["load"][0] == "WARNING"
        daemon.note_saturation(None)
        assert [one["event"] for one in heard(alerts)] == ["scheduler_recovered"]
        assert checks(shop)["load"] == ("OK", "")
        daemon.note_saturation(Saturation("all workers are busy", 4, 9, 4, 4))
    shop.run("UPDATE pgtrickle.pgt_leader SET owner = 'another:1:x', saturation = '{}'")
    with standing_for_leader(shop.trickle._runtime):
        shop.run("DELETE FROM pgtrickle.pgt_leader WHERE owner LIKE 'another%'")
    assert checks(shop)["load"] == ("OK", "")
