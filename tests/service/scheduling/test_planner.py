"""The planner finds the best interval of simulated courses, from the history alone."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgtrickle.errors import StreamTableNotFoundError
from pgtrickle.model.scheduling.cron import parse_cron
from tests.labs.courses import COURSES, MONDAY, Course, Recorded, history, record
from tests.labs.lab import Lab, Row

ADVICE = (
    "SELECT recommended_interval_seconds, confidence, reasoning"
    " FROM pgtrickle.schedule_recommendations()"
)
MODE = "SELECT recommended_mode, confidence, reason FROM pgtrickle.recommend_refresh_mode('counts')"
NEAR = 0.15  # how far from the best interval the recommended one may be


@pytest.fixture
def counts(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (id int PRIMARY KEY)")
    lab.trickle.create_stream_table("counts", "SELECT count(*) AS n FROM t", "1m")
    return lab


@cache
def simulated(name: str) -> tuple[Course, float]:
    course = COURSES[name]()
    return course, course.best_interval()


def advice(lab: Lab) -> Row:
    [found] = lab.rows(ADVICE)
    return found


@pytest.mark.parametrize("interval", [20, 60])
@pytest.mark.parametrize("name", COURSES)
def test_recommended_interval_is_near_the_best(counts: Lab, name: str, interval: float):
    course, best = simulated(name)
    record(counts, "counts", history(course, interval))

    recommended, confidence, _ = advice(counts)

    assert course.mean_cost(recommended) < 1.05 * course.mean_cost(best)
    assert recommended == pytest.approx(best, rel=NEAR)
    assert confidence > 0.4


def test_outliers_move_the_interval_little(counts: Lab):
    """Every hundredth refresh waits ten minutes for a lock."""
    course, best = simulated("steady")
    refreshes = [
        Recorded(one.began, 600, one.amount) if number % 100 == 50 else one
        for number, one in enumerate(history(course, 20))
    ]
    record(counts, "counts", refreshes)

    assert advice(counts)[0] == pytest.approx(best, rel=NEAR)


def test_peak_of_a_working_week_is_a_cron_expression(counts: Lab):
    record(counts, "counts", history(simulated("weekly")[0], 60))
    found = counts.trickle.insight.recommend_schedule("counts")
    assert found["peak_window_cron"] == "* 9-16 * * 1-5"
    assert parse_cron(found["peak_window_cron"]).hours == tuple(range(9, 17))

    record(counts, "counts", history(simulated("spike")[0], 60))
    assert counts.trickle.insight.recommend_schedule("counts")["peak_window_cron"] is None


REFRESHES = st.lists(
    st.tuples(
        st.floats(1, 40_000),  # seconds since the one before
        st.floats(0.001, 500),  # seconds that it took
        st.integers(0, 10**6),  # changed rows
        st.sampled_from(["DIFFERENTIAL", "DIFFERENTIAL", "FULL", "NO_DATA", "REINITIALIZE"]),
        st.sampled_from(["COMPLETED", "COMPLETED", "COMPLETED", "FAILED"]),
    ),
    min_size=25,
    max_size=90,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(course=REFRESHES, cuts=st.lists(st.integers(1, 25), min_size=2, max_size=5))
def test_more_history_of_a_course_is_never_less_certain(
    counts: Lab, course: list[tuple[float, float, int, str, str]], cuts: list[int]
):
    moment, refreshes = MONDAY, []
    for gap, took, amount, action, status in course:
        moment += timedelta(seconds=gap)
        refreshes.append(Recorded(moment, took, amount, action, status))
    before, length = 0.0, 0
    for cut in (*cuts, len(refreshes)):
        length = min(length + cut, len(refreshes))
        record(counts, "counts", refreshes[:length])

        recommended, confidence, reasoning = advice(counts)

        assert before <= confidence < 1
        assert (recommended is None) == (confidence == 0)
        assert recommended is None or 1 <= recommended <= 86_400
        assert reasoning
        before = confidence


def test_too_little_history_says_so(counts: Lab):
    refreshes = history(simulated("steady")[0], 60)
    record(counts, "counts", refreshes[:19])
    assert counts.trickle.insight.recommend_schedule("counts") == {
        "recommended_interval_seconds": None,
        "peak_window_cron": None,
        "confidence": 0,
        "reasoning": "19 refreshes with changes are on record, of the 20 that it takes",
    }

    record(counts, "counts", refreshes[:20])
    assert advice(counts)[1] > 0
    counts.run("SELECT pgtrickle.set_setting('schedule_recommendation_min_samples', '30')")
    try:
        assert advice(counts)[1] == 0
    finally:
        counts.run("SELECT pgtrickle.set_setting('schedule_recommendation_min_samples', NULL)")


def test_refreshes_that_rows_make_long_keep_up(counts: Lab):
    """Rows come at one a second and take 0.9 s each: what is short would not end in time."""
    refreshes = []
    for number in range(400):
        amount = 20 if number % 2 else 60
        began = MONDAY + timedelta(seconds=60 * number)
        refreshes.append(Recorded(began, 20 + 0.9 * amount, amount))
    record(counts, "counts", refreshes)

    recommended, _, reasoning = advice(counts)

    # Most rows of a refresh: one a second, for which 20 s / (1 - 0.9) is the least.
    assert recommended >= 200
    assert "900000.0 ms per 1,000 changed rows" in reasoning


def test_service_level_limits_the_interval(counts: Lab):
    course, best = simulated("steady")
    record(counts, "counts", history(course, 20))
    counts.trickle.scheduler.set_stream_table_sla("counts", "20s")
    try:
        recommended, _, reasoning = advice(counts)
    finally:
        counts.trickle.scheduler.set_stream_table_sla("counts", None)

    assert recommended == 19 < best
    assert "which the service level of 20.0 s allows" in reasoning


def test_all_stream_tables_with_the_distance_to_their_intervals(counts: Lab):
    create = counts.trickle.create_stream_table
    create("by_cron", "SELECT max(id) AS m FROM t", "@hourly")
    create("slow", "SELECT min(id) AS m FROM t", "10s")
    counts.trickle.alter_stream_table("slow", tier="cold")
    record(counts, "slow", history(simulated("steady")[0], 60))

    found = {one.stream_table: one for one in counts.trickle.insight.schedule_recommendations()}

    assert list(found) == ["public.by_cron", "public.counts", "public.slow"]
    assert found["public.counts"].current_interval_seconds == 60
    assert found["public.by_cron"].current_interval_seconds is None
    assert found["public.counts"].delta_pct is None
    slow = found["public.slow"]
    assert slow.current_interval_seconds == 100
    assert slow.recommended_interval_seconds is not None
    assert slow.delta_pct == pytest.approx(slow.recommended_interval_seconds - 100)


@pytest.mark.parametrize("verb", ["recommend_schedule", "recommend_refresh_mode"])
def test_unknown_name_is_refused(counts: Lab, verb: str):
    with pytest.raises(StreamTableNotFoundError):
        getattr(counts.trickle.insight, verb)("nothing")


def predict(lab: Lab, differential: float, full: float, *, ran: str, every: int = 1) -> None:
    """Let the history say what either way took, or would have taken."""
    lab.run(
        f"UPDATE pgtrickle.pgt_refresh_history SET action = '{ran}', actual_ms ="
        f" CASE '{ran}' WHEN 'FULL' THEN {full} ELSE {differential} END,"
        f" predicted_differential_ms = {differential}, predicted_full_ms = {full}"
        f" WHERE refresh_id % {every} = 0"
    )


def test_recommended_mode_follows_what_either_way_costs(counts: Lab):
    record(counts, "counts", history(simulated("steady")[0], 60))
    assert counts.rows(MODE)[0][:2] == ("AUTO", 0)  # nothing was predicted

    predict(counts, differential=50, full=400, ran="DIFFERENTIAL")
    [(mode, confidence, reason)] = counts.rows(MODE)
    assert (mode, reason) == ("AUTO", "no other mode would save a tenth of the time")
    assert confidence > 0.9

    predict(counts, differential=500, full=100, ran="FULL")
    assert counts.rows(MODE)[0][0] == "FULL"

    counts.trickle.alter_stream_table("counts", refresh_mode="DIFFERENTIAL")
    predict(counts, differential=50, full=400, ran="DIFFERENTIAL")
    assert counts.rows(MODE)[0][0] == "DIFFERENTIAL"
    predict(counts, differential=2000, full=400, ran="DIFFERENTIAL", every=3)
    [(mode, _, reason)] = counts.rows(MODE)
    assert mode == "AUTO"
    assert re.fullmatch(r"taking the quicker way .* saved \d\d % of the time", reason)


def test_mode_of_a_query_without_a_delta_stays(counts: Lab):
    query = "SELECT count(*) AS n FROM t WHERE id > random()"
    counts.trickle.create_stream_table("drawn", query, "1m", refresh_mode="FULL")

    [found] = counts.trickle.insight.recommend_refresh_mode("drawn")

    assert (found.recommended_mode, found.confidence) == ("FULL", 0)
