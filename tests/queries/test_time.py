"""Queries whose answer changes while no source does (scenarios.md: P58)."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from pgtrickle.errors import (
    DataError,
    TrickleError,
    UnsupportedQueryError,
    VolatileFunctionError,
)
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.scheduler.loop import Loop
from pgtrickle.scheduler.pace import Cycle
from tests.labs.lab import Lab

# The passing of time is not followed in these; test_time_passes.py has the others.
_QUERIES = {
    "age": "SELECT id FROM t WHERE age(at) > interval '1 month'",
    "current_time": "SELECT id FROM t WHERE at::timetz > current_time",
    "a precision": "SELECT id FROM t WHERE at > current_timestamp(0)",
    "shown": "SELECT id, at - now() > interval '0' AS left_over FROM t",
    "shown below": "SELECT kind, max(left_over) > interval '0' AS m FROM (SELECT id % 2 AS kind,"
    " at - now() AS left_over FROM t) AS s GROUP BY kind",
    "across tables": "SELECT t.id FROM t JOIN u ON t.at + u.id * interval '1 day' > now()",
    "over an outer join": "SELECT u.id FROM u LEFT JOIN t ON t.id = u.id"
    " WHERE t.at > now() OR t.id IS NULL",
    "in an aggregate": "SELECT length(string_agg(id::text, now()::text ORDER BY id)) > 3 AS l"
    " FROM t",
    "in a window": "SELECT id, lag(at, 1, now()) OVER (ORDER BY id) > '2001-01-01' AS l FROM t",
    "in having": "SELECT id % 2 AS k, max(at) AS m FROM t GROUP BY id % 2 HAVING max(at) > now()",
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
    future, past = times.refresh("future"), times.refresh("past")
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

    def resumed(self, name: str) -> None:
        raise AssertionError(f"{name} was suspended")

    def fell_behind(self, cycle: Cycle) -> None:
        """Do nothing."""

    def sink_changed(self, news: SinkNews) -> None:
        raise AssertionError(f"there is no sink: {news}")


def test_p58_the_schedule_refreshes_without_any_change(
    times: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    times.trickle.create_stream_table("future", "SELECT id FROM t WHERE at > now()", schedule="1s")
    times.trickle.create_stream_table("still", "SELECT id FROM t", schedule="1s")
    later = times.trickle.get_stream_table("future").last_refresh_at
    assert later is not None
    watched = Watched()

    loop = Loop(times.trickle.daemon, watched, now=lambda: later + timedelta(minutes=1))
    loop.run_once(threading.Event())
    assert watched.reports == []  # no row is due yet
    runtime = times.trickle._runtime
    monkeypatch.setattr(runtime, "clock", lambda now: now.replace(year=3000, day=1))
    loop = Loop(times.trickle.daemon, watched, now=lambda: later + timedelta(minutes=2))
    loop.run_once(threading.Event())

    # The other one is passed over: nothing it reads has changed.
    assert {(one.stream_table, one.action.value) for one in watched.reports} == {
        ("public.future", "DIFFERENTIAL")
    }


def test_time_that_changes_nothing_leaves_no_history(times: Lab) -> None:
    times.create("future", "SELECT id FROM t WHERE at > now()", mode="AUTO")
    before = times.trickle.refresh_history("future")
    [began] = times.rows(SEEN)

    for _ in range(3):
        [report] = times.trickle.daemon.refresh_unit(["future"])
        assert (report.action.value, report.refresh_id) == ("NO_DATA", None)
        assert (report.rows_inserted, report.rows_deleted) == (0, 0)

    assert times.trickle.refresh_history("future") == before
    [ended] = times.rows(SEEN)
    assert ended[0] > began[0]
    assert ended[1] > began[1]
    times.check("future")


SEEN = "SELECT last_refresh_at, data_timestamp FROM pgtrickle.pgt_stream_tables"


def test_time_that_changes_something_is_in_the_history(times: Lab) -> None:
    times.trickle.create_stream_table("s", "SELECT count(*) AS n, now() AS at FROM t")

    [report] = times.trickle.daemon.refresh_unit(["s"])

    assert (report.rows_inserted, report.rows_deleted) == (1, 1)
    [latest, *_] = times.trickle.refresh_history("s")
    assert (latest.id, latest.rows_inserted, latest.rows_deleted) == (report.refresh_id, 1, 1)


def test_changed_source_and_refresh_by_hand_are_in_the_history(times: Lab) -> None:
    times.create("future", "SELECT id FROM t WHERE at > now()", mode="AUTO")

    by_hand = times.trickle.refresh_stream_table("future")
    times.run("INSERT INTO t VALUES (77, '2001-01-01')")
    [report] = times.trickle.daemon.refresh_unit(["future"])

    numbers = [one.id for one in times.trickle.refresh_history("future")][:2]
    assert numbers == [report.refresh_id, by_hand.refresh_id]
    assert (report.rows_inserted, report.rows_deleted) == (0, 0)


def test_error_of_a_time_dependent_query_is_in_the_history(times: Lab) -> None:
    times.create("future", "SELECT 1 / (id - 50) AS x FROM t WHERE at > now()", mode="AUTO")
    times.run("INSERT INTO t VALUES (50, '2999-01-01')")

    for _ in range(2):
        with pytest.raises(DataError):
            times.trickle.daemon.refresh_unit(["future"])

    [latest, before, *_] = times.trickle.refresh_history("future")
    assert [latest.error_code, before.error_code] == ["ST407", "ST407"]


def test_p58_the_clock_itself_is_refused_unless_the_mode_is_full(times: Lab) -> None:
    query = "SELECT id FROM t WHERE at > clock_timestamp()"
    for mode in ("DIFFERENTIAL", "AUTO"):
        with pytest.raises(VolatileFunctionError, match="clock_timestamp"):
            times.create("s", query, mode=mode)

    times.create("s", query, mode="FULL")
    times.run("INSERT INTO t VALUES (60, '2999-01-01')")
    assert "volatile" in times.trickle.refresh_stream_table("s").reason
    times.check("s")


def test_volatile_function_is_called_at_each_refresh(times: Lab) -> None:
    times.trickle.create_stream_table(
        "seen", "SELECT id, clock_timestamp() AS at FROM t", refresh_mode="FULL"
    )
    before = times.value("SELECT min(at) FROM seen")

    report = times.trickle.refresh_stream_table("seen")

    assert report.action.value == "FULL"
    assert "clock_timestamp" in report.reason
    assert times.value("SELECT min(at) FROM seen") > before


def test_function_that_becomes_volatile_stops_the_stream_table(times: Lab) -> None:
    times.run(
        "CREATE FUNCTION twice(x int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 2 * x'",
    )
    times.create("s", "SELECT twice(id) AS d FROM t")
    times.run("ALTER FUNCTION twice(int) VOLATILE", "INSERT INTO t VALUES (70, '2030-01-01')")

    with pytest.raises(VolatileFunctionError, match="twice"):
        times.trickle.refresh_stream_table("s")


def test_p58_times_in_the_data_are_no_current_time(times: Lab) -> None:
    times.create(
        "s", "SELECT id, at - timestamptz '2026-01-01' AS d FROM t WHERE at > '2026-01-01'"
    )
    times.create("ages", "SELECT id, age(at, timestamptz '2026-01-01') AS a FROM t")

    times.window("INSERT INTO t VALUES (4, '2030-01-01')", "DELETE FROM t WHERE id = 2")
