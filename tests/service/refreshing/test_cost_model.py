"""AUTO chooses by predicted cost, records it, and can be told otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pgtrickle.errors import SettingError
from pgtrickle.model.stream_table import Action
from pgtrickle.service.refreshing.costing.forecast import make_forecast
from pgtrickle.settings import Settings
from tests.labs.lab import Lab

QUERY = "SELECT c.region, sum(o.qty) AS qty FROM c JOIN o ON o.cid = c.id GROUP BY c.region"
SMALL = "UPDATE o SET qty = qty + 1 WHERE id = 7"
MOST = "UPDATE o SET qty = qty + 1 WHERE id < 27000; UPDATE c SET region = region + 1"
EVERYTHING = "UPDATE o SET qty = qty + 1; UPDATE c SET region = region + 1"


@pytest.fixture
def shop(lab: Lab) -> Iterator[Lab]:
    runtime = lab.trickle._runtime
    usual = runtime.settings
    runtime.settings = replace(usual, cost_model_safety_margin=Settings().cost_model_safety_margin)
    lab.run(
        "CREATE TABLE c (id int PRIMARY KEY, region int)",
        "CREATE TABLE o (id int PRIMARY KEY, cid int, qty int)",
        "CREATE INDEX ON o (cid)",
        "INSERT INTO c SELECT g, g % 5 FROM generate_series(1, 200) AS g",
        "INSERT INTO o SELECT g, 1 + g % 200, g % 9 FROM generate_series(1, 60000) AS g",
        "ANALYZE c, o",
    )
    yield lab
    runtime.settings = usual


def test_a_small_window_is_followed_and_both_predictions_are_on_record(shop: Lab):
    shop.create("sums", QUERY, mode="AUTO")
    shop.run(SMALL)
    report = shop.trickle.refresh_stream_table("sums")
    [newest, first] = shop.trickle.refresh_history("sums")

    assert report.action is Action.DIFFERENTIAL
    assert report.reason.startswith("DIFFERENTIAL predicted ")
    assert report.reason.endswith("; changed rows in public.o: 1")
    assert (report.predicted_ms, report.alternative_ms) == (
        newest.predicted_differential_ms,
        newest.predicted_full_ms,
    )
    assert newest.predicted_ms == newest.predicted_differential_ms
    assert report.predicted_ms is not None
    assert report.alternative_ms is not None
    assert report.predicted_ms < report.alternative_ms
    assert newest.actual_ms is not None
    assert newest.actual_ms <= report.duration_ms
    assert newest.rows_read == sum(read.rows for read in report.reads)
    assert newest.bytes_read == sum(read.bytes for read in report.reads)
    assert (first.action, first.predicted_differential_ms) == (Action.FULL, None)
    assert first.predicted_full_ms is not None


def test_a_window_that_rewrites_everything_is_recomputed(shop: Lab):
    shop.create("sums", QUERY, mode="AUTO")
    shop.trickle.alter_stream_table("sums", max_delta_fraction=1)
    shop.run(MOST)

    report = shop.refresh("sums", "FULL")

    assert report.reason.startswith("DIFFERENTIAL predicted ")
    assert report.alternative_ms is not None
    assert report.predicted_ms is not None
    assert report.predicted_ms < report.alternative_ms


def test_too_many_changed_rows_are_recomputed_whatever_they_cost(shop: Lab):
    shop.create("sums", QUERY, mode="AUTO")
    shop.run(EVERYTHING)

    report = shop.refresh("sums", "FULL")

    assert "exceed 50%" in report.reason


def test_a_stream_table_has_its_own_limit(shop: Lab):
    shop.trickle.create_stream_table("sums", QUERY, max_delta_fraction=0)
    shop.queries["sums"] = QUERY
    shop.run(SMALL)
    assert "exceed 0%" in shop.refresh("sums", "FULL").reason

    altered = shop.trickle.alter_stream_table("sums", max_delta_fraction="default")
    shop.run(SMALL)
    shop.refresh("sums", "DIFFERENTIAL")

    assert altered.max_delta_fraction is None


@pytest.mark.parametrize("value", [-0.1, 1.5, "many"])
def test_a_limit_is_a_share(shop: Lab, value: object):
    with pytest.raises(SettingError):
        shop.trickle.create_stream_table("sums", QUERY, max_delta_fraction=value)  # type: ignore[arg-type]
    shop.create("sums", QUERY)
    with pytest.raises(SettingError):
        shop.trickle.alter_stream_table("sums", max_delta_fraction=value)  # type: ignore[arg-type]


def test_strict_differential_never_turns(shop: Lab):
    shop.create("sums", QUERY, mode="DIFFERENTIAL")
    shop.trickle.alter_stream_table("sums", max_delta_fraction=0)
    shop.run(EVERYTHING)

    report = shop.refresh("sums", "DIFFERENTIAL")

    assert report.predicted_ms is not None


def test_full_stays_full(shop: Lab):
    shop.create("sums", QUERY, mode="FULL")
    shop.run(SMALL)

    report = shop.refresh("sums", "FULL")

    assert report.reason == "refresh_mode is FULL"
    assert report.predicted_ms is not None


def test_nothing_to_do_is_not_predicted(shop: Lab):
    shop.create("sums", QUERY, mode="AUTO")
    report = shop.trickle.refresh_stream_table("sums")
    [newest, _] = shop.trickle.refresh_history("sums")

    assert (report.action, report.predicted_ms) == (Action.NO_DATA, None)
    assert (newest.predicted_full_ms, newest.predicted_differential_ms) == (None, None)


def test_predictions_follow_what_refreshes_take(shop: Lab):
    """Where every refresh takes ten times as long as the prices say, predictions rise."""
    shop.create("sums", QUERY, mode="AUTO")
    shop.run(SMALL)
    first = shop.trickle.refresh_stream_table("sums")
    expected = first.predicted_ms
    assert expected is not None
    for _ in range(6):
        shop.run(SMALL)
        shop.before_next_stage(lambda: time.sleep(expected / 100))
        shop.trickle.refresh_stream_table("sums")
    [last] = shop.trickle.refresh_history("sums", limit=1)

    assert last.predicted_differential_ms is not None
    assert last.predicted_differential_ms > 2 * expected


def predicted(lab: Lab, name: str, changed: dict[str, int]) -> float | None:
    """Return what this process would predict for a differential refresh after such changes."""
    runtime, table = lab.trickle._runtime, lab.trickle.get_stream_table(name)
    compiled = runtime.remembered.find_compiled(table)
    assert compiled is not None
    relids = {one: lab.value(f"SELECT '{one}'::regclass::oid::int8") for one in ("c", "o")}
    rows = {str(relids[one]): number for one, number in changed.items()}
    with runtime.connection() as connection:
        forecast, _ = make_forecast(
            *(runtime, table, connection, compiled, list(relids.values()), rows),
            runtime.engine_mode(table.engine),
        )
    return forecast.ms(Action.DIFFERENTIAL)


def test_another_process_learns_from_the_same_history(shop: Lab):
    shop.create("sums", QUERY, mode="AUTO")
    for _ in range(6):
        shop.run(SMALL)
        shop.trickle.refresh_stream_table("sums")
    remembered = predicted(shop, "sums", {"o": 2})
    shop.trickle._runtime.remembered.clear()
    shop.run(SMALL)
    shop.trickle.refresh_stream_table("sums")
    [again] = shop.trickle.refresh_history("sums", limit=1)

    # Not the same to the last digit: it reads the statistics anew too.
    assert again.predicted_differential_ms == pytest.approx(remembered, rel=0.1)
    assert (
        shop.value("SELECT count(*) FROM pgtrickle.pgt_refresh_history WHERE cost IS NOT NULL") == 7
    )


def test_the_cost_model_can_be_kept_from_recomputing(shop: Lab):
    runtime = shop.trickle._runtime
    usual = runtime.settings
    shop.create("sums", QUERY, mode="AUTO")
    shop.trickle.alter_stream_table("sums", max_delta_fraction=1)
    shop.run(MOST)
    runtime.settings = replace(usual, cost_model_safety_margin=0.0)
    try:
        shop.refresh("sums", "DIFFERENTIAL")
    finally:
        runtime.settings = usual


def test_a_query_that_cannot_be_followed_has_one_prediction(shop: Lab):
    query = "SELECT id FROM o WHERE qty < 5 AND age(timestamptz '2020-01-01') > '1 day'"
    shop.create("recent", query, mode="AUTO")
    shop.run(SMALL)
    report = shop.trickle.refresh_stream_table("recent")

    assert report.action is Action.FULL
    assert report.predicted_ms is not None
    assert report.alternative_ms is None


def test_conditions_are_priced_by_postgresql(shop: Lab):
    shop.create("few", "SELECT id FROM o WHERE id < 100", mode="AUTO")
    shop.run(SMALL)
    shop.trickle.refresh_stream_table("few")
    cost = shop.value(
        "SELECT cost->'work'->'FULL' FROM pgtrickle.pgt_refresh_history WHERE cost IS NOT NULL"
    )

    assert cost["scanned_rows"] == pytest.approx(60_000, rel=0.05)
    assert cost["moved_values"] < 300
