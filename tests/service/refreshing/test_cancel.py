"""A refresh that is cancelled stops at its next step, wherever it is, and has changed nothing."""

from __future__ import annotations

import pytest

from pgtrickle.errors import RefreshCancelledError, Retry, SparkFailedError
from pgtrickle.service.requests.cancel import CancellableRuntime
from tests.labs.lab import Lab

SPREAD = "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g GROUP BY n"


@pytest.fixture
def spread(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int)",
        "INSERT INTO t SELECT n, n % 3 FROM generate_series(1, 10) AS n",
    )
    lab.create("spread", SPREAD)
    lab.run("INSERT INTO t VALUES (11, 7)")
    return lab


def test_cancelled_refresh_changes_nothing_and_the_next_one_does(spread: Lab):
    before = spread.rows("TABLE spread")
    found: list[bool] = []
    spread.before_next_stage(lambda: found.append(spread.trickle.cancel_refresh("spread")))

    with pytest.raises(RefreshCancelledError) as caught:
        spread.trickle.refresh_stream_table("spread")

    assert found == [True]
    assert caught.value.retry is Retry.BACKOFF
    [latest, *_] = spread.trickle.refresh_history("spread")
    assert (latest.status.value, latest.error_code) == ("CANCELLED", "ST214")
    assert spread.trickle.get_stream_table("spread").last_error_message is None
    assert spread.rows("TABLE spread") == before
    spread.refresh("spread")


def test_what_the_engine_says_when_it_is_stopped_is_the_cancel(spread: Lab):
    def stop() -> None:
        spread.trickle.cancel_refresh("spread")
        raise SparkFailedError("the job was cancelled")

    spread.before_next_stage(stop)

    with pytest.raises(RefreshCancelledError):
        spread.trickle.refresh_stream_table("spread")

    [latest, *_] = spread.trickle.refresh_history("spread")
    assert (latest.status.value, latest.error_code) == ("CANCELLED", "ST214")


def test_other_refreshes_go_on(spread: Lab):
    found: list[bool] = []
    spread.before_next_stage(lambda: found.append(spread.trickle.cancel_refresh("other")))

    spread.refresh("spread")

    assert found == [False]


def test_cancel_of_a_refresh_that_is_over_does_nothing(spread: Lab):
    spread.refresh("spread")

    assert not spread.trickle.cancel_refresh("spread")
    spread.run("DELETE FROM t WHERE id = 11")
    spread.refresh("spread")


def test_request_that_is_cancelled_stops_its_own_refresh_alone(spread: Lab):
    runtime = spread.trickle._runtime
    request = CancellableRuntime.like(runtime)
    spread.before_next_stage(request.cancel)

    spread.refresh("spread")  # not the one of the request

    assert request.cancelled
