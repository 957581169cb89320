"""The loop refreshes what is due, in order, and lets nothing stop it but being told."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from pgtrickle.errors import CatalogTooNewError, ConnectionLostError, SourceNotFoundError
from pgtrickle.model.stream_table import Status
from pgtrickle.scheduler.loop import Loop
from tests.scheduler.shop import NOON, Shop, Stop, Watched


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def loop(shop: Shop, watched: Watched) -> Loop:
    return Loop(shop, watched, now=shop.clock.now)


def run_for(loop: Loop, shop: Shop, seconds: float) -> None:
    loop.run(Stop(shop.clock, timedelta(seconds=seconds)))


def test_pass_refreshes_in_dependency_order(shop: Shop, loop: Loop, watched: Watched) -> None:
    shop.add("a", reads=("b",))
    shop.add("b")

    loop.run_once(threading.Event())

    assert watched.refreshed_names == ["public.b", "public.a"]


def test_pass_returns_when_the_next_is_due(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="5m")

    assert loop.run_once(threading.Event()) == NOON + timedelta(minutes=5)


def test_pass_over_nothing_has_no_next(loop: Loop) -> None:
    assert loop.run_once(threading.Event()) is None


def test_capture_and_lake_are_tended_although_nothing_is_due(shop: Shop, loop: Loop) -> None:
    shop.add("a", status=Status.SUSPENDED)

    run_for(loop, shop, 3)

    assert shop.tended == 3
    assert shop.delivered == 3


def test_suspended_table_is_left_alone(shop: Shop, loop: Loop) -> None:
    shop.add("a", status=Status.SUSPENDED)

    loop.run_once(threading.Event())

    assert shop.refreshes == []


def test_table_that_is_not_due_is_left_alone(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="1m", last_refresh_at=NOON - timedelta(seconds=59))

    loop.run_once(threading.Event())

    assert shop.refreshes == []


def test_child_that_becomes_due_meanwhile_follows_its_parent(shop: Shop, loop: Loop) -> None:
    shop.takes = timedelta(seconds=3)
    shop.add("child", reads=("parent",), last_refresh_at=NOON)
    shop.add("parent")

    loop.run_once(threading.Event())

    assert [name for _, name in shop.refreshes] == ["public.parent", "public.child"]


def test_cadence_counts_from_start_to_start(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="2s")

    run_for(loop, shop, seconds=7)

    assert [at for at, _ in shop.refreshes] == [0, 2, 4, 6]


def test_failure_is_retried_with_longer_and_longer_pauses(
    shop: Shop, loop: Loop, watched: Watched
) -> None:
    shop.add("a")
    shop.trouble["public.a"] = SourceNotFoundError("gone")

    run_for(loop, shop, seconds=10)

    assert watched.failures == [
        ("public.a", "ST301", 1.0),
        ("public.a", "ST301", 2.0),
        ("public.a", "ST301", 4.0),
        ("public.a", "ST301", 8.0),
    ]


def test_failure_of_one_does_not_stop_the_others(shop: Shop, loop: Loop, watched: Watched) -> None:
    shop.add("a")
    shop.add("b")
    shop.trouble["public.a"] = SourceNotFoundError("gone")

    loop.run_once(threading.Event())

    assert watched.refreshed_names == ["public.b"]


def test_success_forgets_earlier_failures(shop: Shop, loop: Loop, watched: Watched) -> None:
    shop.add("a")
    shop.trouble["public.a"] = ConnectionLostError("lost")
    run_for(loop, shop, seconds=5)
    shop.trouble.clear()
    run_for(loop, shop, seconds=20)
    watched.failures.clear()

    shop.trouble["public.a"] = ConnectionLostError("lost again")
    run_for(loop, shop, seconds=22)

    assert watched.failures[0] == ("public.a", "ST401", 1.0)


def test_bug_is_reported_and_retried(shop: Shop, loop: Loop, watched: Watched) -> None:
    shop.add("a")
    shop.trouble["public.a"] = ZeroDivisionError("oops")

    loop.run_once(threading.Event())

    assert watched.failures == [("public.a", "ST901", 1.0)]


def test_schedule_of_a_newer_version_is_reported(shop: Shop, loop: Loop, watched: Watched) -> None:
    shop.add("a", schedule="@daily")
    shop.add("b")

    loop.run_once(threading.Event())

    assert watched.failures == [("public.a", "ST501", 300.0)]
    assert watched.refreshed_names == ["public.b"]


def test_lost_connection_while_listing_is_retried(shop: Shop, loop: Loop, watched: Watched) -> None:
    shop.add("a")
    shop.lost = [ConnectionLostError("lost"), ConnectionLostError("lost")]

    run_for(loop, shop, seconds=4)

    assert watched.failures == [(None, "ST401", 1.0), (None, "ST401", 2.0)]
    assert [at for at, _ in shop.refreshes] == [3]


def test_hopeless_error_while_listing_ends_the_loop(shop: Shop, loop: Loop) -> None:
    shop.lost = [CatalogTooNewError("too new")]

    with pytest.raises(CatalogTooNewError):
        run_for(loop, shop, seconds=4)


def test_stop_lets_the_refresh_in_progress_finish(shop: Shop, loop: Loop, watched: Watched) -> None:
    shop.add("a")
    shop.add("b")
    stop = Stop(shop.clock, timedelta(hours=1))
    shop.on_refresh = stop.set

    loop.run(stop)

    assert watched.refreshed_names == ["public.a"]


def test_new_table_is_noticed_within_a_second(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="1h")
    run_for(loop, shop, seconds=10)

    shop.add("b", schedule="1h")
    run_for(loop, shop, seconds=12)

    assert [name for _, name in shop.refreshes] == ["public.a", "public.b"]


def test_idle_tables_are_looked_at_together_and_not_refreshed(shop: Shop, loop: Loop) -> None:
    for name in ("a", "b", "c"):
        shop.add(name)
    shop.idle = {"public.a", "public.c"}

    loop.run_once(threading.Event())

    assert shop.looked_at == [["public.a", "public.b", "public.c"]]
    assert [name for _, name in shop.refreshes] == ["public.b"]


def test_idle_table_keeps_its_cadence(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="2s")
    shop.idle = {"public.a"}

    run_for(loop, shop, seconds=7)

    assert len(shop.looked_at) == 4
    assert shop.refreshes == []


def test_idle_child_follows_a_parent_that_changed(shop: Shop, loop: Loop) -> None:
    shop.add("child", reads=("parent",))
    shop.add("grandchild", reads=("child",))
    shop.add("parent")
    shop.add("stranger")
    shop.idle = {"public.child", "public.grandchild", "public.stranger"}

    loop.run_once(threading.Event())

    refreshed = [name for _, name in shop.refreshes]
    assert refreshed == ["public.parent", "public.child", "public.grandchild"]


def test_idle_child_does_not_follow_a_parent_that_failed(shop: Shop, loop: Loop) -> None:
    shop.add("child", reads=("parent",))
    shop.add("parent")
    shop.idle = {"public.child"}
    shop.trouble["public.parent"] = SourceNotFoundError("gone")

    loop.run_once(threading.Event())

    assert [name for _, name in shop.refreshes] == ["public.parent"]


def test_table_that_becomes_due_meanwhile_waits_to_be_looked_at(shop: Shop, loop: Loop) -> None:
    shop.takes = timedelta(seconds=3)
    shop.add("a")
    shop.add("b", last_refresh_at=NOON)
    shop.idle = {"public.b"}

    loop.run_once(threading.Event())
    loop.run_once(threading.Event())

    assert "public.b" in shop.looked_at[1]
    assert {name for _, name in shop.refreshes} == {"public.a"}


def test_schedule_of_a_newer_version_is_reported_also_without_changes(
    shop: Shop, loop: Loop, watched: Watched
) -> None:
    shop.add("a", schedule="@daily")
    shop.idle = {"public.a"}

    loop.run_once(threading.Event())

    assert watched.failures == [("public.a", "ST501", 300.0)]


def test_clock_that_is_set_back_delays_nothing(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="5m")
    loop.run_once(threading.Event())
    shop.clock.at -= timedelta(hours=1)
    began = shop.clock.now()

    next_due = loop.run_once(threading.Event())

    assert len(shop.refreshes) == 2
    assert next_due == began + timedelta(minutes=5)
