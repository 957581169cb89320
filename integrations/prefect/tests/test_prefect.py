"""A real Prefect runs flows over stream tables that a real daemon maintains."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from prefect import flow
from prefect.testing.utilities import prefect_test_harness
from prefect_pgtrickle import (
    PgTrickleDatabase,
    refresh_stream_table,
    verify_stream_table,
    wait_until_fresh,
)
from prefect_pgtrickle.tasks import NotEqualError, NotFreshError
from served_shop import Shop, served_shop

from pgtrickle.errors import StreamTableNotFoundError


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with (
        served_shop() as opened,
        prefect_test_harness(server_startup_timeout=300),
    ):
        PgTrickleDatabase(dsn=opened.dsn).save("shop")
        yield opened


@flow
def refresh(names: list[str]) -> list[str]:
    database = PgTrickleDatabase.load("shop")
    done = [refresh_stream_table(database, name) for name in names]
    for name in names:
        verify_stream_table(database, name)
    return [one.action.value for one in done]


@flow
def check() -> None:
    verify_stream_table(PgTrickleDatabase.load("shop"), "best")


@flow
def wait(max_age: timedelta, timeout: timedelta) -> float:
    database = PgTrickleDatabase.load("shop")
    return wait_until_fresh(database, "revenue", max_age=max_age, timeout=timeout, poll_seconds=0.2)


def test_tasks_refresh_and_verify_by_the_daemon(shop: Shop) -> None:
    shop.order(10, 2, 100)
    assert refresh(["revenue", "best"]) == ["DIFFERENTIAL", "DIFFERENTIAL"]
    assert shop.rows("SELECT total FROM best") == [(125,)]
    asked = "SELECT count(*) FROM pgtrickle.requests WHERE verb = 'refresh_stream_table'"
    assert shop.rows(asked) == [(2,)]


@pytest.mark.usefixtures("shop")
def test_what_fails_fails_the_flow() -> None:
    with pytest.raises(StreamTableNotFoundError):
        refresh(["missing"])
    with pytest.raises(NotFreshError, match="wanted within 0:00:00"):
        wait(timedelta(0), timedelta(seconds=0.5))


def test_a_stream_table_that_differs_fails_the_flow(shop: Shop) -> None:
    shop.connection.execute("SET session_replication_role = replica")  # no guard
    shop.connection.execute("UPDATE best SET total = 0")
    shop.connection.execute("SET session_replication_role = origin")
    with pytest.raises(NotEqualError, match="1 rows are missing, 1 too many"):
        check()
    shop.trickle.refresh_stream_table("best", full=True)
    check()


def test_waiting_ends_when_the_schedule_has_refreshed(shop: Shop) -> None:
    shop.trickle.alter_stream_table("revenue", schedule="1s")
    assert wait(timedelta(seconds=30), timedelta(seconds=60)) <= 30
