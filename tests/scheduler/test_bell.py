"""A bell wakes the loop for stream tables at rest, and for those alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgtrickle.scheduler.loop import Loop
from tests.scheduler.shop import NOON, ByHand, SameThread, Shop, Stop, Watched, standing


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def bell(shop: Shop) -> ByHand:
    return ByHand(shop.clock)


@pytest.fixture
def loop(shop: Shop, bell: ByHand) -> Loop:
    return Loop(
        shop, Watched(), now=shop.clock.now, workers=SameThread, stopwatch=standing, bell=bell
    )


def run_for(loop: Loop, shop: Shop, seconds: float) -> None:
    loop.run(Stop(shop.clock, timedelta(seconds=seconds)))


def ring(bell: ByHand, *seconds: float) -> None:
    bell.rings = [NOON + timedelta(seconds=one) for one in seconds]


@pytest.fixture
def changed_at_four(shop: Shop) -> None:
    """Let a stream table have something to do from a moment on, long before it is due."""
    shop.add("a", schedule="10s", last_refresh_at=NOON - timedelta(hours=1))
    shop.idle = {"public.a"}
    shop.changes = {"public.a": NOON + timedelta(seconds=4)}


@pytest.mark.usefixtures("changed_at_four")
def test_change_is_followed_at_once_by_one_at_rest(shop: Shop, bell: ByHand, loop: Loop) -> None:
    ring(bell, 4)

    run_for(loop, shop, seconds=9)

    assert shop.refreshes == [(4, "public.a")]


@pytest.mark.usefixtures("changed_at_four")
def test_without_a_ring_it_is_found_when_due(shop: Shop, loop: Loop) -> None:
    run_for(loop, shop, seconds=15)

    assert shop.refreshes == [(10, "public.a")]


def test_refreshes_are_as_far_apart_as_the_schedule_says(
    shop: Shop, bell: ByHand, loop: Loop
) -> None:
    shop.add("a", schedule="5s")
    ring(bell, *(0.5 * number for number in range(1, 60)))

    run_for(loop, shop, seconds=14)

    assert [at for at, _ in shop.refreshes] == [0, 5, 10]


def test_rings_for_nothing_cost_one_look_a_schedule(shop: Shop, bell: ByHand, loop: Loop) -> None:
    shop.add("a", schedule="5s", last_refresh_at=NOON - timedelta(hours=1))
    shop.idle = {"public.a"}
    ring(bell, *(0.1 * number for number in range(1, 300)))

    run_for(loop, shop, seconds=20)

    # At most the look that is due and one more, in each five seconds.
    assert len(shop.looked_at) <= 9


def test_nobody_is_woken_who_is_held_back(shop: Shop, bell: ByHand, loop: Loop) -> None:
    shop.add("a", schedule="5s")
    shop.held = {"public.a"}

    run_for(loop, shop, seconds=7)

    assert bell.watched == set()


def test_nobody_is_watched_while_another_leads(shop: Shop, bell: ByHand, loop: Loop) -> None:
    shop.add("a", schedule="5s", last_refresh_at=NOON - timedelta(hours=1))
    shop.idle = {"public.a"}
    loop.leads = lambda: shop.clock.at < NOON + timedelta(seconds=3)

    run_for(loop, shop, seconds=2)
    assert bell.watched == {1}

    run_for(loop, shop, seconds=6)
    assert bell.watched == set()


def test_who_is_sure_to_be_woken_is_looked_at_less_often(
    shop: Shop, bell: ByHand, loop: Loop
) -> None:
    shop.add("a", schedule="1s", last_refresh_at=NOON - timedelta(hours=1))
    shop.idle, bell.sure = {"public.a"}, True
    shop.changes = {"public.a": NOON + timedelta(seconds=14.5)}
    ring(bell, 14.5)

    run_for(loop, shop, seconds=14)
    looks = len(shop.looked_at)
    run_for(loop, shop, seconds=16)

    assert 3 <= looks <= 4  # at 0, 1, 9, and what the end of a run makes of it
    assert shop.refreshes[0] == (14.5, "public.a")


def test_who_was_told_of_a_change_of_the_graph_looks_at_its_time(
    shop: Shop, bell: ByHand, loop: Loop
) -> None:
    shop.add("a", schedule="1s", last_refresh_at=NOON - timedelta(hours=1))
    shop.idle, bell.sure = {"public.a"}, True
    run_for(loop, shop, seconds=3)
    looks = len(shop.looked_at)

    shop.version_told = "another"
    run_for(loop, shop, seconds=4)

    assert len(shop.looked_at) > looks
