"""Time is a source: rows enter and leave a result as time passes, and each refresh finds them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from pgtrickle.errors import UnsupportedQueryError
from pgtrickle.model.frontier import NEVER
from pgtrickle.sql.text.current_time import Moments, fill_times
from tests.labs.lab import Lab
from tests.labs.time_lab import NOON, QUERIES, TimeLab, simulated
from tests.labs.wal_lab import clear, modes, need_log


@pytest.fixture
def time_lab(lab: Lab) -> Iterator[TimeLab]:
    with simulated(lab) as made:
        yield made


STEPS = (
    timedelta(seconds=1),
    timedelta(hours=9),
    timedelta(days=1),
    timedelta(microseconds=1),
    timedelta(days=6),
)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_rows_move_as_time_passes(time_lab: TimeLab, query: str) -> None:
    time_lab.create("s", query)

    for step, statement in zip(STEPS, CHANGES, strict=True):
        time_lab.at(step)
        time_lab.refresh("s")
        time_lab.lab.run(statement)
        time_lab.at(step)
        time_lab.refresh("s")
    time_lab.verify("s")


CHANGES = (
    "INSERT INTO t SELECT id + 100, at + interval '9 hours', at_local, day + 1, kind FROM t",
    "DELETE FROM t WHERE id % 7 = 0",
    "UPDATE t SET at = at + interval '1 day 1 us', day = day + 1 WHERE id % 2 = 0",
    "UPDATE t SET at = NULL WHERE id % 5 = 0",
    "UPDATE t SET at = at - interval '20 days', kind = 'k1' WHERE id % 3 = 0",
)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_random_histories_of_rows_and_time(
    request: pytest.FixtureRequest, seed: int, engine: str
) -> None:
    lab = request.getfixturevalue("lab" if engine == "duckdb" else "postgres_lab")
    random = Random(seed)
    with simulated(lab) as time_lab:
        for number, name in enumerate(random.sample(sorted(QUERIES), 6)):
            time_lab.create(f"s{number}", QUERIES[name])
        for _ in range(6):
            history(random, time_lab)
            for name in lab.queries:
                time_lab.refresh(name)
        for name in lab.queries:
            time_lab.verify(name)


def history(random: Random, time_lab: TimeLab) -> None:
    """Write some rows, and let some time pass; it always does, or nothing would be DIFFERENTIAL."""
    for _ in range(random.randrange(4)):
        low, moved = random.randrange(60), random.randrange(-20, 20)
        time_lab.lab.run(
            random.choice(
                (
                    "INSERT INTO t SELECT id + 7, at, at_local, day, kind FROM t"
                    f" WHERE id BETWEEN {low} AND {low + 5}",
                    f"DELETE FROM t WHERE id BETWEEN {low} AND {low + 3}",
                    f"UPDATE t SET at = at + interval '{moved} hours', day = day + {moved % 3} - 1"
                    f" WHERE id BETWEEN {low} AND {low + 9}",
                    f"UPDATE t SET at = '{time_lab.now.isoformat()}', day = NULL WHERE id = {low}",
                    f"UPDATE t SET at_local = at_local + interval '{moved} hours' WHERE id > {low}",
                    f"UPDATE u SET id = id + 1 WHERE id = {low}",
                )
            )
        )
    time_lab.at(
        random.choice(
            (timedelta(microseconds=1), timedelta(hours=9), timedelta(hours=3), timedelta(days=2))
        )
    )


def test_the_table_holds_the_rows_at_the_recorded_time(time_lab: TimeLab) -> None:
    time_lab.create("s", QUERIES["between"])
    time_lab.at(timedelta(hours=1))
    time_lab.refresh("s")

    recorded = time_lab.lab.value("SELECT frontier -> 'time' FROM pgtrickle.pgt_stream_tables")

    assert recorded == {
        "at": "2026-03-10T13:00:00+00:00",
        "zone": "UTC",
        "next_change_at": "2026-03-10T15:00:00.000001+00:00",
    }


def test_time_never_goes_back(time_lab: TimeLab) -> None:
    time_lab.create("s", QUERIES["upper bound"])
    time_lab.at(timedelta(hours=-3))

    report = time_lab.lab.trickle.refresh_stream_table("s")
    time_lab.lab.run("INSERT INTO t VALUES (99, '2026-03-10 10:30+00', NULL, NULL, NULL)")
    after = time_lab.lab.trickle.refresh_stream_table("s")

    assert (report.action.value, report.reason) == (
        "NO_DATA",
        "no source changed; the clock stepped back: the time of the contents stays"
        " 2026-03-10 12:00:00+00:00",
    )
    assert "the clock stepped back" in after.reason
    time_lab.at(NOON)
    time_lab.check("s")
    time_lab.at(timedelta(hours=9))
    time_lab.refresh("s")


def test_an_update_that_coincides_with_the_time_counts_once(time_lab: TimeLab) -> None:
    time_lab.create("s", "SELECT id, kind FROM t WHERE at > now()")
    for at in ("at", "at + interval '1 hour'", "at - interval '1 hour'", "NULL"):
        time_lab.lab.run(
            "INSERT INTO t SELECT n, a.at, NULL, NULL, 'new' FROM generate_series(500, 505) AS n,"
            f" LATERAL (SELECT timestamptz '{time_lab.now.isoformat()}'"
            " + (n - 502) * interval '30 minutes' AS at) AS a"
        )
        time_lab.at(timedelta(hours=1))
        time_lab.refresh("s")
        time_lab.lab.run(f"UPDATE t SET kind = 'seen', at = {at} WHERE id > 499")
        time_lab.at(timedelta(minutes=30))
        time_lab.refresh("s")
        time_lab.lab.run("DELETE FROM t WHERE id > 499")
        time_lab.at(timedelta(minutes=30))
        time_lab.refresh("s")


@pytest.mark.parametrize(
    ("zone", "start"),
    [
        ("Europe/Berlin", datetime(2026, 3, 28, 20, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 10, 24, 20, tzinfo=UTC)),
        ("Pacific/Apia", datetime(2011, 12, 29, 6, tzinfo=UTC)),  # a day is left out
    ],
)
def test_days_of_a_time_zone_with_summer_time(lab: Lab, zone: str, start: datetime) -> None:
    name = lab.value("SELECT current_database()")
    lab.run(f"ALTER DATABASE {name} SET timezone = '{zone}'", f"SET timezone = '{zone}'")
    lab.reconnect()
    try:
        with simulated(lab, start) as time_lab:
            lab.run(
                "INSERT INTO t SELECT n, at, at::timestamp, at::date, 'k' || n % 3"
                f" FROM generate_series(100, 200) AS n, LATERAL (SELECT timestamptz '{start}'"
                " + (n - 150) * interval '20 minutes' AS at) AS a"
            )
            for number, query in enumerate(ZONED):
                time_lab.create(f"s{number}", query)
            for _ in range(10):
                time_lab.at(timedelta(minutes=50))
                for name_ in lab.queries:
                    time_lab.refresh(name_)
    finally:
        lab.run(f"ALTER DATABASE {name} RESET timezone", "RESET timezone")
        lab.reconnect()


ZONED = (
    "SELECT id FROM t WHERE at > now() - interval '1 day'",
    "SELECT id FROM t WHERE at < date_trunc('day', now())",
    "SELECT id FROM t WHERE at < current_date",
    "SELECT id FROM t WHERE at_local <= localtimestamp",
    "SELECT id FROM t WHERE at::date = current_date",
)


def test_another_time_zone_starts_anew(lab: Lab) -> None:
    with simulated(lab) as time_lab:
        time_lab.create("s", QUERIES["cast"])
        name = lab.value("SELECT current_database()")
        lab.run(f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'", "SET timezone = 'Asia/Tokyo'")
        lab.reconnect()
        try:
            report = time_lab.refresh("s", "REINITIALIZE")
            assert report.reason == "the time zone changed from UTC to Asia/Tokyo"
        finally:
            lab.run(f"ALTER DATABASE {name} RESET timezone", "RESET timezone")
            lab.reconnect()


def test_views_and_a_stream_table_above_follow(time_lab: TimeLab) -> None:
    lab = time_lab.lab
    lab.trickle.create_stream_table("s", "SELECT id FROM recent", refresh_mode="DIFFERENTIAL")
    lab.trickle.create_stream_table("n", "SELECT count(*) AS n FROM s")
    for _ in range(3):
        time_lab.at(timedelta(days=1))
        assert lab.trickle.refresh_stream_table("s").action.value == "DIFFERENTIAL"
        lab.trickle.refresh_stream_table("n")
        [(expected,)] = lab.rows(
            time_lab.held("SELECT count(*) FROM t WHERE at > now() - interval '7 days'")
        )
        assert lab.rows("TABLE n") == [(expected,)]
        assert lab.trickle.verify_stream_table("s").ok


def test_explain_shows_the_range_and_the_missing_index(time_lab: TimeLab) -> None:
    time_lab.create("s", "SELECT id FROM t WHERE day >= current_date - 3 AND at < now()")

    text = time_lab.lab.trickle.explain_stream_table("s", format="text")

    assert '"day" between the values of CURRENT_DATE - 3 or "at" between the values of' in text
    assert 'CREATE INDEX ON "public"."t" ("day");' in text
    assert 'CREATE INDEX ON "public"."t" ("at");' not in text
    assert "unbounded" not in text


def test_explain_names_a_read_without_a_range(time_lab: TimeLab) -> None:
    time_lab.create("s", QUERIES["unbounded"])

    text = time_lab.lab.trickle.explain_stream_table("s", format="text")

    assert "unbounded: the time is not compared with a value of the row alone" in text


def test_the_range_is_read_by_the_index(time_lab: TimeLab) -> None:
    time_lab.lab.run(
        "INSERT INTO t SELECT n, '2020-01-01'::timestamptz + n * interval '1 minute'"
        " FROM generate_series(1000, 60000) AS n",
        "ANALYZE t",
    )
    time_lab.create("s", QUERIES["lower bound"])
    told = json.loads(time_lab.lab.trickle.explain_stream_table("s", format="json"))
    [read] = [one for one in told["stages"][0]["reads"] if one["kind"] == "changes"]
    query = fill_times(read["sql"].partition("UNION ALL")[2], Moments.between(NOON, NOON))

    plan = time_lab.lab.rows(f"EXPLAIN {query}")

    assert "t_at_idx" in str(plan)


def test_a_table_of_a_full_mode_is_compared_at_its_time(time_lab: TimeLab) -> None:
    time_lab.create("s", QUERIES["between"], mode="FULL")
    time_lab.at(timedelta(days=1))

    report = time_lab.refresh("s", "FULL")

    assert report.reason == "the query depends on the current time"
    time_lab.verify("s")


def test_immediate_is_refused_with_the_mode_that_works(time_lab: TimeLab) -> None:
    with pytest.raises(UnsupportedQueryError, match="IMMEDIATE") as refused:
        time_lab.lab.trickle.create_stream_table(
            "s", QUERIES["lower bound"], refresh_mode="IMMEDIATE"
        )

    assert "DIFFERENTIAL" in refused.value.hint
    assert time_lab.lab.leftovers() == []


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_the_log_and_the_table_are_read_apart(request: pytest.FixtureRequest, engine: str) -> None:
    lab = request.getfixturevalue("lab" if engine == "duckdb" else "postgres_lab")
    need_log(lab)
    with simulated(lab) as time_lab:
        lab.run("ALTER TABLE t ADD PRIMARY KEY (id)")
        for number, name in enumerate(("between", "grouped", "join", "filtered")):
            time_lab.create(f"s{number}", QUERIES[name], cdc_mode="wal")
        assert modes(lab)["t"] == "WAL"
        for step, statement in zip(STEPS, CHANGES, strict=True):
            lab.run(statement)
            time_lab.at(step)
            for name in lab.queries:
                time_lab.refresh(name)
        for name in lab.queries:
            time_lab.verify(name)
    clear(lab)


def test_members_of_a_diamond_have_one_time(time_lab: TimeLab) -> None:
    lab = time_lab.lab
    parts = {
        "soon": "SELECT id FROM t WHERE at > now()",
        "late": "SELECT id, kind FROM t WHERE at <= now()",
        "all_of_them": "SELECT id FROM soon UNION ALL SELECT id FROM late",
        "fresh": "SELECT l.id FROM late AS l JOIN t ON t.id = l.id"
        " AND t.at > now() - interval '1 day'",
    }
    for name, query in parts.items():
        lab.trickle.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    for step, statement in zip(STEPS, CHANGES, strict=True):
        lab.run(statement)
        time_lab.at(step)
        for top in ("all_of_them", "fresh"):
            lab.trickle.refresh_stream_table(top)
        assert lab.rows("TABLE all_of_them") == lab.rows("SELECT id FROM t WHERE at IS NOT NULL")
        expected = parts["fresh"].replace("late AS l", f"({parts['late']}) AS l")
        assert lab.rows("TABLE fresh") == lab.rows(time_lab.held(expected))
    for name in parts:
        assert lab.trickle.verify_stream_table(name).ok


def test_a_limit_is_pinned_and_follows_the_time(time_lab: TimeLab) -> None:
    time_lab.lab.trickle.create_stream_table(
        "s", "SELECT id, at FROM t WHERE at > now() LIMIT 3", refresh_mode="DIFFERENTIAL"
    )
    for step in STEPS:
        time_lab.at(step)
        report = time_lab.lab.trickle.refresh_stream_table("s")
        assert report.action.value in {"DIFFERENTIAL", "NO_DATA"}
        assert time_lab.lab.trickle.verify_stream_table("s").ok


DUE = {
    "SELECT id FROM t WHERE at > now()": timedelta(hours=9),
    "SELECT id FROM t WHERE at >= now() - interval '2 days'": timedelta(hours=3, microseconds=1),
    "SELECT id FROM t WHERE at < now() - interval '2 days' AND kind = 'k2'": timedelta(
        hours=21, microseconds=1
    ),
    "SELECT id FROM t WHERE day = current_date": timedelta(hours=12),
    "SELECT id FROM t WHERE day > current_date + 3 AND at < now()": timedelta(microseconds=1),
    "SELECT id FROM t WHERE at >= date_trunc('month', now())": timedelta(days=21, hours=12),
    "SELECT id FROM t WHERE at_local > localtimestamp - interval '1 month'": timedelta(
        days=23, hours=21
    ),
    "SELECT u.id FROM u JOIN t ON t.id = u.id AND t.at > now() + interval '1 day'": timedelta(
        hours=3
    ),
    "SELECT id FROM t WHERE at < now() - interval '1 year' AND id > 42": None,
    "SELECT id FROM t WHERE now() - at > interval '2 days'": "unknown",
    "SELECT id FROM t WHERE at::date = current_date": "unknown",
}


def test_the_next_change_is_known(time_lab: TimeLab) -> None:
    time_lab.lab.run("DELETE FROM t WHERE id = 44")
    for number, (query, after) in enumerate(DUE.items()):
        time_lab.create(f"s{number}", query)
        found = time_lab.lab.trickle.get_stream_table(f"s{number}").next_change_at

        if isinstance(after, timedelta):
            assert found == NOON + after, query
        else:
            assert found == (NEVER if after is None else None), query


def test_a_table_is_refreshed_when_a_row_is_due_and_not_before(time_lab: TimeLab) -> None:
    """No row moves before the next change; then one does, as long as there is one."""
    queries = [query for query, after in DUE.items() if isinstance(after, timedelta)]
    for number, query in enumerate(queries[:5]):
        time_lab.create(f"s{number}", query)
    for name in time_lab.lab.queries:
        for _ in range(4):
            due = time_lab.lab.trickle.get_stream_table(name).next_change_at
            assert due is not None
            time_lab.at(due - timedelta(microseconds=1))
            time_lab.check(name)
            time_lab.refresh(name, "NO_DATA")
            before = time_lab.lab.rows(f"TABLE {name}")
            time_lab.at(due + timedelta(microseconds=1))
            time_lab.refresh(name)
            if "kind" not in time_lab.lab.queries[name] and name != "s4":
                assert time_lab.lab.rows(f"TABLE {name}") != before
        time_lab.at(NOON + timedelta(days=2))
        time_lab.lab.trickle.refresh_stream_table(name)


def test_a_table_that_nobody_writes_to_is_idle_until_a_row_is_due(time_lab: TimeLab) -> None:
    time_lab.create("s", "SELECT id FROM t WHERE at > now() - interval '4 hours'")
    time_lab.create("unknown", QUERIES["unbounded"])
    daemon, trickle = time_lab.lab.trickle.daemon, time_lab.lab.trickle
    tables = [trickle.get_stream_table(name) for name in time_lab.lab.queries]

    def idle() -> set[str]:
        found = daemon.find_idle(tables)
        return {table.name.name for table in tables if table.id in found}

    assert idle() == {"s"}
    time_lab.at(timedelta(hours=4))
    assert idle() == set()
    time_lab.refresh("s")
    assert idle() == {"s"}
    time_lab.lab.run("INSERT INTO t VALUES (99, '2026-03-10 13:00+00')")
    assert idle() == set()
    time_lab.refresh("s")
    time_lab.at(datetime(2026, 3, 10, 16, 59, tzinfo=UTC))
    assert idle() == {"s"}
    time_lab.at(timedelta(minutes=2))
    assert idle() == set()
