"""Refreshes that take longer than their interval: told, stretched, kept by whoever takes over."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from pgtrickle.errors import StorageFullError
from pgtrickle.scheduler.loop import Loop
from pgtrickle.scheduler.pace import Pace
from tests.scheduler.shop import Clock, SameThread, Shop, Stop, Watched, standing

THREE_SECONDS = timedelta(seconds=3)


@pytest.fixture
def shop() -> Shop:
    found = Shop(Clock(), takes=THREE_SECONDS)
    found.add("slow")
    return found


def run(shop: Shop, seconds: float, **parts: object) -> tuple[Loop, Watched]:
    """Let a new process work for a while."""
    watched = Watched()
    loop = Loop(shop, watched, now=shop.clock.now, workers=SameThread, stopwatch=standing)
    for name, part in parts.items():
        setattr(loop, name, part)
    until = shop.clock.at - Clock().at + timedelta(seconds=seconds)
    loop.run(Stop(shop.clock, until))
    loop._pass(SameThread(), Stop(shop.clock, until))
    return loop, watched


def test_each_late_refresh_is_told_and_the_third_stretches_the_interval(shop: Shop):
    _, watched = run(shop, 14)

    assert [stretch for _, stretch in watched.behind[:4]] == [1, 1, 2, 2]
    assert shop.paces[1].stretch == 2


def test_process_that_takes_over_goes_on_with_the_stretched_interval(shop: Shop):
    run(shop, 9.5)
    assert shop.paces[1].stretch == 2

    shop.takes = timedelta(seconds=2)  # within the stretched interval, not within the schedule
    began = len(shop.refreshes)
    _, watched = run(shop, 9)

    moments = [at for at, _ in shop.refreshes[began:]]
    assert len(moments) >= 3
    assert min(b - a for a, b in pairwise(moments)) >= 2
    assert watched.behind == []
    assert shop.paces == {1: Pace(0, 2)}


def test_one_refresh_on_time_ends_it(shop: Shop):
    run(shop, 9.5)
    shop.takes = timedelta(seconds=0.5)

    run(shop, 4)

    assert shop.paces == {}


def test_check_that_finds_nothing_ends_it_too(shop: Shop):
    run(shop, 9.5)
    shop.idle = {"public.slow"}

    run(shop, 4)

    assert shop.paces == {}


def test_switched_off_it_is_told_and_nothing_is_stretched(shop: Shop):
    watched = Watched()
    loop = Loop(shop, watched, now=shop.clock.now, workers=SameThread, stopwatch=standing)
    loop.timetable.backs_off = lambda: False

    loop.run(Stop(shop.clock, timedelta(seconds=20)))

    assert {stretch for _, stretch in watched.behind} == {1}
    assert len(watched.behind) > 4


def test_who_stands_by_forgets_and_reads_the_record_when_it_leads_again(shop: Shop):
    leads = True
    watched = Watched()
    loop = Loop(
        shop,
        watched,
        now=shop.clock.now,
        workers=SameThread,
        stopwatch=standing,
        leads=lambda: leads,
    )
    stop = Stop(shop.clock, timedelta(days=1))
    for _ in range(2):
        loop._pass(SameThread(), stop)
    assert loop.timetable._attempts
    leads = False
    loop._pass(SameThread(), stop)
    assert not loop.timetable._attempts
    shop.paces = {1: Pace(1, 4)}
    shop.idle = {"public.slow"}
    leads = True
    shop.clock.at += timedelta(seconds=0.1)
    loop._pass(SameThread(), stop)

    assert loop.timetable._attempts[1].stretch == 4


def test_error_for_want_of_room_is_told_until_refreshes_succeed(shop: Shop):
    shop.takes = timedelta(seconds=0.1)
    shop.trouble["public.slow"] = StorageFullError("no connection left")
    loop, _ = run(shop, 2)
    loop.admission.most = lambda: 2
    assert loop.admission.limit == 1
    assert [one.reason for one in shop.saturations if one] == [
        "ST404: PostgreSQL ran out of disk space, memory or connections"
    ]

    shop.trouble.clear()
    stop = Stop(shop.clock, shop.clock.at - Clock().at + timedelta(seconds=60))
    loop.run(stop)

    assert loop.admission.limit == 2
    assert shop.saturations[-1] is None
