"""Service levels and advice in SQL, for those who may."""

from __future__ import annotations

import psycopg
import pytest

from tests.labs.lab import Lab


@pytest.fixture
def counts(served: Lab) -> Lab:
    served.run("CREATE TABLE t (a int)")
    served.trickle.create_stream_table("counts", "SELECT count(*) AS n FROM t", "1m")
    return served


def ask(lab: Lab, sla: str) -> object:
    return lab.value(f"CALL pgtrickle.set_stream_table_sla('counts', {sla})")


def test_level_is_an_interval(counts: Lab):
    name = {"name": "public.counts"}

    assert ask(counts, "interval '30 seconds'") == name | {
        "sla_s": 30, "tier": "warm", "schedule": "13s",
    }  # fmt: skip
    assert counts.rows("SELECT sla_s, breach_s FROM pgtrickle.sla_summary()") == [(30, 0)]
    assert ask(counts, "'PT1H30M'") == name | {"sla_s": 5400, "tier": "cold", "schedule": "13s"}
    assert ask(counts, "NULL") == name | {"sla_s": None, "tier": "cold", "schedule": "13s"}
    assert counts.rows("SELECT sla_s FROM pgtrickle.sla_summary()") == [(None,)]


@pytest.mark.parametrize(
    "sla", ["'0'", "'-1 s'", "'20 years'", "'100000000 years'"], ids=lambda sla: sla.strip("'")
)
def test_impossible_level_is_refused(counts: Lab, sla: str):
    with pytest.raises(psycopg.Error) as caught:
        ask(counts, sla)

    assert caught.value.sqlstate == "ST501"


def test_reader_is_advised_and_may_promise_nothing(counts: Lab):
    counts.run("CREATE ROLE reading", "SELECT pgtrickle.grant_access('reading', 'reader')")
    try:
        counts.run("SET ROLE reading")
        advice = counts.value("SELECT pgtrickle.recommend_schedule('public.counts')")
        assert set(advice) == {
            "recommended_interval_seconds", "peak_window_cron", "confidence", "reasoning",
        }  # fmt: skip
        assert counts.value("SELECT count(*) FROM pgtrickle.schedule_recommendations()") == 1
        assert counts.value("SELECT count(*) FROM pgtrickle.recommend_refresh_mode()") == 1
        for inner in ("plan_schedule(1)", "take_sla_alerts(24, 0)", "number_setting('trim_rows')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                counts.run(f"SELECT pgtrickle.{inner}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(counts, "'1m'")
    finally:
        counts.run("RESET ROLE", "DROP OWNED BY reading", "DROP ROLE reading")
