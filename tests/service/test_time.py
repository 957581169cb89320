"""Queries whose answer changes while no source does (REFERENCE.md: P58)."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from pgtrickle.errors import TrickleError, UnsupportedQueryError, VolatileFunctionError
from pgtrickle.model.report import RefreshReport
from pgtrickle.scheduler.loop import Loop
from tests.service.lab import Lab

_QUERIES = {
    "now": "SELECT id FROM t WHERE at > now()",
    "now in the past": "SELECT id FROM t WHERE at < now() - interval '7 days'",
    "current_date": "SELECT id FROM t WHERE at::date >= current_date",
    "current_timestamp": "SELECT id FROM t WHERE at > current_timestamp",
    "localtimestamp": "SELECT id FROM t WHERE at::timestamp > localtimestamp",
    "age": "SELECT id FROM t WHERE age(at) > interval '1 month'",
    "transaction_timestamp": "SELECT id FROM t WHERE at > transaction_timestamp()",
    "shown": "SELECT id, at - now() > interval '0' AS left_over FROM t",
    "in a join": "SELECT t.id FROM t JOIN u ON u.id = t.id AND t.at > now()",
    "in having": "SELECT id % 2 AS k, max(at) AS m FROM t GROUP BY id % 2 HAVING max(at) > now()",
    "in a subquery": "SELECT id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.id = u.id"
    " AND t.at > now())",
    "in a view": "SELECT id FROM soon",
    "in a function": "SELECT id FROM t WHERE at > today()",
}


@pytest.fixture
def times(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int, at timestamptz)",
        "CREATE TABLE u (id int)",
        "CREATE VIEW soon AS SELECT id FROM t WHERE at > now()",
        "CREATE FUNCTION today() RETURNS date LANGUAGE sql STABLE AS 'SELECT current_date'",
        "INSERT INTO t VALUES (1, '2000-01-01'), (2, '2999-01-01'), (3, NULL)",
        "INSERT INTO u VALUES (1), (2), (3)",
    )
    return lab


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_p58_is_refused_under_differential_with_a_hint(times: Lab, query: str) -> None:
    with pytest.raises(UnsupportedQueryError, match="the current time") as refused:
        times.create("s", query)

    assert "leave as time passes" in refused.value.hint
    assert "'AUTO'" in refused.value.hint
    assert times.leftovers() == []


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_p58_is_refreshed_full_under_auto_and_marked_so(times: Lab, query: str) -> None:
    times.create("s", query, mode="AUTO")
    marked = times.trickle.get_stream_table("s")

    [idle] = times.window(action="FULL")
    times.window("INSERT INTO t VALUES (4, '2999-01-01')", action="FULL")

    assert (marked.refresh_mode.value, marked.effective_refresh_mode.value) == ("AUTO", "FULL")
    assert "the current time" in str(marked.downgrade_reason)
    assert idle.reason == "the query depends on the current time"
    history = times.trickle.refresh_history("s")
    assert {one.action.value for one in history if one.action} == {"FULL"}


def test_p58_rows_leave_and_enter_as_time_passes(times: Lab) -> None:
    times.create("future", "SELECT id FROM t WHERE at > now()", mode="AUTO")
    times.create("past", "SELECT id FROM t WHERE at <= now()", mode="AUTO")
    times.create("waiting", "SELECT count(*) AS n FROM future")
    for seconds in (2, 8, 32):
        times.run("DELETE FROM t WHERE id = 9")
        times.run(f"INSERT INTO t VALUES (9, now() + interval '{seconds} s')")
        for name in times.queries:
            times.trickle.refresh_stream_table(name)
        if times.value("SELECT at > clock_timestamp() FROM t WHERE id = 9"):
            break  # else the machine was too slow: it was past before it was seen

    times.run("SELECT pg_sleep_until(at) FROM t WHERE id = 9")
    future, past = times.refresh("future", action="FULL"), times.refresh("past", action="FULL")
    times.refresh("waiting")

    assert (future.rows_inserted, future.rows_deleted) == (0, 1)
    assert (past.rows_inserted, past.rows_deleted) == (1, 0)
    assert times.rows("TABLE waiting") == [(1,)]


class Watched:
    """Keeps what a loop reports."""

    def __init__(self) -> None:
        self.reports: list[RefreshReport] = []

    def refreshed(self, report: RefreshReport) -> None:
        self.reports.append(report)

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        raise AssertionError(f"{name}: {error}, again in {retry_in}")


def test_p58_the_schedule_refreshes_without_any_change(times: Lab) -> None:
    times.trickle.create_stream_table("future", "SELECT id FROM t WHERE at > now()", schedule="1s")
    times.trickle.create_stream_table("still", "SELECT id FROM t", schedule="1s")
    later = times.trickle.get_stream_table("future").last_refresh_at
    assert later is not None
    watched = Watched()

    loop = Loop(times.trickle, watched, now=lambda: later + timedelta(minutes=1))
    loop.run_once(threading.Event())

    # The other one is passed over: nothing it reads has changed.
    assert {(one.stream_table, one.action.value) for one in watched.reports} == {
        ("public.future", "FULL")
    }


def test_p58_the_clock_itself_is_refused_in_every_mode(times: Lab) -> None:
    for mode in ("DIFFERENTIAL", "AUTO", "FULL"):
        with pytest.raises(VolatileFunctionError, match="clock_timestamp"):
            times.create("s", "SELECT id FROM t WHERE at > clock_timestamp()", mode=mode)


def test_p58_times_in_the_data_are_no_current_time(times: Lab) -> None:
    times.create(
        "s", "SELECT id, at - timestamptz '2026-01-01' AS d FROM t WHERE at > '2026-01-01'"
    )
    times.create("ages", "SELECT id, age(at, timestamptz '2026-01-01') AS a FROM t")

    times.window("INSERT INTO t VALUES (4, '2030-01-01')", "DELETE FROM t WHERE id = 2")
