"""The loop refreshes what is due, in order, and lets nothing stop it but being told."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from pgtrickle.errors import (
    CatalogTooNewError,
    ConnectionLostError,
    LeaseHeldError,
    RefreshCancelledError,
    ServerBusyError,
    SourceNotFoundError,
)
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.stream_table import Status, StreamTable
from pgtrickle.scheduler.loop import Loop, worker_threads
from tests.fixtures.daemons import await_
from tests.scheduler.shop import NOON, SameThread, Shop, Stop, Watched, standing


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def loop(shop: Shop, watched: Watched) -> Loop:
    return Loop(shop, watched, now=shop.clock.now, workers=SameThread, stopwatch=standing)


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


@pytest.mark.parametrize(("follows", "passes"), [(False, 3), (True, 6)])
def test_capture_and_lake_are_tended_although_nothing_is_due(
    shop: Shop, loop: Loop, *, follows: bool, passes: int
) -> None:
    shop.add("a", status=Status.SUSPENDED)
    shop.follows = follows

    run_for(loop, shop, 6)

    assert shop.tended == passes
    assert shop.delivered == passes


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


def test_change_after_an_alteration_waits_for_the_new_schedule(
    shop: Shop, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add("a", schedule="1s", last_refresh_at=NOON - timedelta(seconds=5))
    check = shop.find_idle

    def alter_and_check(stream_tables: Sequence[StreamTable]) -> frozenset[int]:
        shop.tables["public.a"] = replace(shop.tables["public.a"], schedule="1h")
        return check(stream_tables)

    monkeypatch.setattr(shop, "find_idle", alter_and_check)

    assert loop.run_once(threading.Event()) == NOON - timedelta(seconds=5) + timedelta(hours=1)

    assert shop.refreshes == []


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
    shop.add("a", schedule="@fortnightly")
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
    shop.add("a", schedule="@fortnightly")
    shop.idle = {"public.a"}

    loop.run_once(threading.Event())

    assert watched.failures == [("public.a", "ST501", 300.0)]


def test_group_goes_to_one_worker_in_order(shop: Shop, loop: Loop) -> None:
    for name in ("a", "b"):
        shop.add(name)
    shop.add("c", reads=("a", "b"))
    shop.groups = [("public.a", "public.b", "public.c")]
    shop.idle = {"public.a", "public.c"}

    loop.run_once(threading.Event())

    assert shop.refreshes == [(0, "public.a"), (0, "public.b"), (0, "public.c")]


@pytest.mark.parametrize(("slowest", "expected"), [(set[str](), [0, 2, 4]), ({"public.b"}, [0, 3])])
def test_group_is_due_with_its_first_or_last_member(
    shop: Shop, loop: Loop, slowest: set[str], expected: list[int]
) -> None:
    shop.add("a", schedule="2s")
    shop.add("b", schedule="3s", reads=("a",))
    shop.groups = [("public.a", "public.b")]
    shop.slowest = slowest

    run_for(loop, shop, seconds=5)

    assert [at for at, name in shop.refreshes if name == "public.a"] == expected


def test_member_below_a_suspended_one_stays_where_it_is(shop: Shop, loop: Loop) -> None:
    shop.add("a", status=Status.SUSPENDED)
    shop.add("b")
    shop.add("c", reads=("a", "b"))
    shop.groups = [("public.a", "public.b", "public.c")]

    loop.run_once(threading.Event())

    assert [name for _, name in shop.refreshes] == ["public.b"]


def test_chain_of_twenty_is_fresh_after_one_pass(shop: Shop, loop: Loop) -> None:
    names = [f"n{number:02}" for number in range(20)]
    for name, above in zip(names, ["", *names], strict=False):
        shop.add(name, schedule="1h", reads=(above,) if above else ())
    shop.idle = {f"public.{name}" for name in names[1:]}

    loop.run_once(threading.Event())

    assert [name for _, name in shop.refreshes] == [f"public.{name}" for name in names]


def test_500_tables_are_each_refreshed_once_and_after_what_they_read(
    shop: Shop, loop: Loop, watched: Watched
) -> None:
    reads = {
        f"chain_{chain}_{depth}": (f"chain_{chain}_{depth - 1}",) if depth else ()
        for depth in reversed(range(20))
        for chain in range(25)
    }
    for name, parents in reads.items():
        shop.add(name, reads=parents)

    loop.run_once(threading.Event())

    place = {name.removeprefix("public."): at for at, name in enumerate(watched.refreshed_names)}
    assert len(watched.refreshed_names) == len(place) == 500
    assert all(place[parent] < place[name] for name in reads for parent in reads[name])


def test_workers_refresh_side_by_side_and_a_child_waits(shop: Shop, watched: Watched) -> None:
    shop.add("a")
    shop.add("b")
    shop.add("child", reads=("a", "b"))
    both = threading.Barrier(2, timeout=60)

    def refresh() -> None:
        if len(shop.refreshes) <= 2:
            both.wait()

    shop.on_refresh = refresh
    loop = Loop(shop, watched, now=shop.clock.now, workers=lambda: worker_threads(2))

    loop.run_once(threading.Event())

    assert {name for _, name in shop.refreshes[:2]} == {"public.a", "public.b"}
    assert [name for _, name in shop.refreshes[2:]] == ["public.child"]


def test_failed_branch_does_not_stop_its_siblings(shop: Shop, loop: Loop) -> None:
    shop.add("a")
    shop.add("b")
    shop.add("child", reads=("b",))
    shop.trouble["public.a"] = SourceNotFoundError("gone")

    loop.run_once(threading.Event())

    assert [name for _, name in shop.refreshes] == ["public.a", "public.b", "public.child"]


def test_parent_that_is_always_due_does_not_starve_its_child(shop: Shop, loop: Loop) -> None:
    shop.takes = timedelta(seconds=3)  # longer than the schedule
    shop.add("parent")
    shop.add("child", reads=("parent",))

    run_for(loop, shop, seconds=30)

    refreshed = [name for _, name in shop.refreshes]
    assert refreshed.count("public.child") >= refreshed.count("public.parent") // 2


def test_stop_waits_for_all_workers(shop: Shop, watched: Watched) -> None:
    stop = threading.Event()
    shop.add("a")
    shop.add("b")
    both = threading.Barrier(2, timeout=60)

    def refresh() -> None:
        both.wait()
        stop.set()

    shop.on_refresh = refresh

    Loop(shop, watched, now=shop.clock.now, workers=lambda: worker_threads(2)).run(stop)

    assert sorted(watched.refreshed_names) == ["public.a", "public.b"]


def test_workers_that_end_all_the_time_leave_the_server_its_rest(watched: Watched) -> None:
    stop, took = threading.Event(), 0.02

    class Slow(Shop):
        def check_catalog(self) -> None:
            time.sleep(took)  # a server with a lot to do

    slow = Slow()
    for number in range(40):
        slow.add(f"t{number}")

    def refresh() -> None:
        time.sleep(took)
        if len(slow.refreshes) >= 40:
            stop.set()

    slow.on_refresh = refresh
    loop = Loop(slow, watched, now=slow.clock.now, workers=lambda: worker_threads(2))
    began = time.monotonic()

    loop.run(stop)

    elapsed = time.monotonic() - began
    assert len(slow.refreshes) >= 40
    assert (slow.tended - 1) * took <= 0.3 * elapsed  # without a rest: all the time


def test_nothing_is_looked_at_while_another_leads(shop: Shop, loop: Loop) -> None:
    shop.add("a")
    loop.leads = lambda: shop.clock.at >= NOON + timedelta(seconds=3)

    run_for(loop, shop, seconds=3)
    assert (shop.tended, shop.refreshes) == (0, [])

    run_for(loop, shop, seconds=5)
    assert shop.refreshes[0] == (3, "public.a")


def test_catalog_of_a_newer_version_ends_the_loop(shop: Shop, loop: Loop) -> None:
    shop.add("a")
    shop.catalog = CatalogTooNewError("too new")

    with pytest.raises(CatalogTooNewError):
        run_for(loop, shop, seconds=4)
    assert shop.refreshes == []


def test_migrated_catalog_cancels_what_runs_and_begins_nothing(
    shop: Shop, watched: Watched
) -> None:
    cancelled, stop = threading.Event(), threading.Event()

    def migrate_meanwhile() -> None:
        shop.catalog = CatalogTooNewError("too new")
        assert cancelled.wait(60)

    shop.add("a")
    shop.add("b")
    shop.on_refresh = migrate_meanwhile
    loop = Loop(shop, watched, workers=lambda: worker_threads(1), cancel=cancelled.set)

    with pytest.raises(CatalogTooNewError):
        loop.run(stop)

    assert stop.is_set()
    assert [name for _, name in shop.refreshes] == ["public.a"]


def test_server_that_comes_back_is_noticed_within_seconds(
    shop: Shop, loop: Loop, watched: Watched
) -> None:
    shop.lost = [ConnectionLostError("lost")] * 6

    run_for(loop, shop, seconds=60)

    assert [pause for _, _, pause in watched.failures] == [1, 2, 4, 5, 5, 5]


def test_calculated_follows_the_fastest_that_reads_it(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="calculated")
    shop.add("b", schedule="calculated", reads=("a",))
    shop.add("slow", schedule="7s", reads=("b",))
    shop.add("fast", schedule="3s", reads=("b",))
    shop.add("daily", schedule="@daily", reads=("a",))

    run_for(loop, shop, seconds=8)

    starts = [round(at) for at, name in shop.refreshes if name == "public.a"]
    assert [after - before for before, after in pairwise(starts)] == [3, 3]


def test_calculated_without_readers_is_as_fast_as_can_be(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="calculated")

    run_for(loop, shop, seconds=3)

    assert [at for at, _ in shop.refreshes] == [0, 1, 2]


@pytest.mark.parametrize(
    ("tier", "expected"),
    [(Tier.HOT, [0, 1, 2]), (Tier.WARM, [0, 2]), (Tier.COLD, [0]), (Tier.FROZEN, [])],
)
def test_tier_makes_a_schedule_longer(
    shop: Shop, loop: Loop, tier: Tier, expected: list[int]
) -> None:
    shop.add("a", tier=tier)

    run_for(loop, shop, seconds=3)

    assert [at for at, _ in shop.refreshes] == expected


def test_cron_is_due_at_its_time_in_its_zone(shop: Shop, loop: Loop) -> None:
    loop.timetable.zone = "Europe/Berlin"
    shop.add("a", schedule="30 13 * * *", last_refresh_at=NOON, tier=Tier.COLD)

    assert loop.run_once(threading.Event()) == NOON + timedelta(minutes=30)


def test_cron_time_that_was_missed_is_made_up_once(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="@hourly", last_refresh_at=NOON - timedelta(days=3))

    run_for(loop, shop, seconds=10)

    assert [at for at, _ in shop.refreshes] == [0]


def test_refreshes_that_take_too_long_are_made_less_often(shop: Shop, loop: Loop) -> None:
    shop.takes = timedelta(seconds=1.5)
    shop.add("a")

    run_for(loop, shop, seconds=13)

    # Three in a row that are late; then there are two seconds for each.
    assert [at for at, _ in shop.refreshes] == [0, 1.5, 3, 5, 7, 9, 11]


def test_one_refresh_on_time_brings_the_schedule_back(shop: Shop, loop: Loop) -> None:
    shop.takes = timedelta(seconds=1.5)
    shop.add("a")
    run_for(loop, shop, seconds=7)
    shop.refreshes.clear()

    shop.takes = timedelta(seconds=0.5)
    run_for(loop, shop, seconds=12)

    assert [at for at, _ in shop.refreshes] == [7, 8, 9, 10, 11]


def test_backoff_may_be_switched_off(shop: Shop, loop: Loop) -> None:
    loop.timetable.backs_off = lambda: False
    shop.takes = timedelta(seconds=1.5)
    shop.add("a")

    run_for(loop, shop, seconds=7)

    assert [at for at, _ in shop.refreshes] == [0, 1.5, 3, 4.5, 6]


def test_pauses_after_failures_are_jittered(shop: Shop, loop: Loop, watched: Watched) -> None:
    loop.timetable.jitter = lambda: 1.5
    shop.add("a")
    shop.trouble["public.a"] = SourceNotFoundError("gone")

    run_for(loop, shop, seconds=5)

    assert [pause for _, _, pause in watched.failures] == [1.5, 3.0, 6.0]


def test_cost_of_a_pass_follows_what_is_due(watched: Watched) -> None:
    def calls_of_a_pass(number: int) -> int:
        """Count the calls of a pass in which one of so many stream tables is due."""
        shop = Shop(version_told="always the same")
        shop.add("due")
        for other in range(number - 1):
            shop.add(f"t{other}", schedule="1h", reads=(f"t{other - 1}",) if other % 20 else ())
        loop = Loop(shop, watched, now=shop.clock.now, workers=SameThread, stopwatch=standing)
        loop.run_once(threading.Event())
        shop.clock.at = NOON + timedelta(minutes=30)
        calls: list[str] = []

        def count(_frame: object, event: str, _argument: object) -> None:
            calls.append(event)

        sys.setprofile(count)
        try:
            loop.run_once(threading.Event())
        finally:
            sys.setprofile(None)
        assert shop.refreshes[-1] == (1800.0, "public.due")
        return len(calls)

    assert calls_of_a_pass(1000) <= 1.2 * calls_of_a_pass(10)


def test_graph_that_changes_while_a_member_is_in_flight(shop: Shop, watched: Watched) -> None:
    """A group that comes about meanwhile waits for the member that is being refreshed."""
    shop.add("a")
    shop.add("b")
    shop.idle = {"public.b"}
    gate, at_work = threading.Event(), threading.Event()

    def refresh() -> None:
        if not at_work.is_set():
            at_work.set()
            gate.wait(60)

    shop.on_refresh = refresh
    loop = Loop(shop, watched, workers=lambda: worker_threads(2))
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(stop,))
    thread.start()
    assert at_work.wait(60)
    shop.groups = [("public.a", "public.b")]
    shop.add("c")
    passes = shop.tended
    await_(lambda: shop.tended >= passes + 2)  # one whole pass with the new graph
    together_too_early = len(shop.refreshes)
    gate.set()
    await_(lambda: "public.b" in [name for _, name in shop.refreshes])
    stop.set()
    thread.join()

    names = [name for _, name in shop.refreshes]
    assert names[:together_too_early].count("public.a") == 1
    assert "public.b" not in names[:together_too_early]
    assert watched.failures == []


def test_table_that_is_held_back_is_left_alone_until_it_is_let_go(shop: Shop, loop: Loop) -> None:
    shop.add("a")
    shop.add("b")
    shop.held = {"public.a"}
    run_for(loop, shop, seconds=3)
    assert {name for _, name in shop.refreshes} == {"public.b"}

    shop.held = set()
    run_for(loop, shop, seconds=5)
    assert {name for _, name in shop.refreshes} == {"public.a", "public.b"}


def test_group_goes_on_without_who_is_held_back_and_who_reads_it(shop: Shop, loop: Loop) -> None:
    shop.add("a")
    shop.add("b")
    shop.add("c", reads=("a", "b"))
    shop.groups = [("public.a", "public.b", "public.c")]
    shop.held = {"public.a"}

    run_for(loop, shop, seconds=2)

    assert [name for _, name in shop.refreshes] == ["public.b", "public.b"]


def test_clock_that_is_set_back_delays_nothing(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="5m")
    loop.run_once(threading.Event())
    shop.clock.at -= timedelta(hours=1)
    began = shop.clock.now()

    next_due = loop.run_once(threading.Event())

    assert len(shop.refreshes) == 2
    assert next_due == began + timedelta(minutes=5)


def test_lease_of_another_is_no_failure_and_is_looked_at_again_soon(
    shop: Shop, loop: Loop, watched: Watched
) -> None:
    shop.add("a", schedule="1h")
    shop.trouble["public.a"] = LeaseHeldError("a request has it")
    run_for(loop, shop, 30)
    assert watched.failures == []

    del shop.trouble["public.a"]
    run_for(loop, shop, 32)

    assert watched.refreshed_names == ["public.a"]


def test_locked_source_is_tried_again_within_seconds_however_long_it_lasts(
    shop: Shop, loop: Loop, watched: Watched
) -> None:
    shop.add("a", schedule="1s")
    shop.trouble["public.a"] = ServerBusyError("somebody has locked what it reads")

    run_for(loop, shop, 3600)

    assert max(pause for _, _, pause in watched.failures) <= 15


def test_what_errors_suspended_is_tried_rarely(shop: Shop, loop: Loop, watched: Watched) -> None:
    shop.add("a")
    shop.suspend("public.a", by="ST301", errors=7)
    shop.trouble["public.a"] = SourceNotFoundError("it is gone")

    run_for(loop, shop, 3600)

    assert [at for at, _ in shop.trials] == pytest.approx([64, 192, 448, 960, 1860, 2760], abs=5)
    assert shop.refreshes == []
    assert watched.resumed_names == []
    assert {code for _, code, _ in watched.failures} == {"ST301"}


def test_what_works_again_goes_on_at_its_own_pace(shop: Shop, loop: Loop, watched: Watched) -> None:
    shop.add("a", schedule="10s")
    shop.suspend("public.a", by="ST301")

    run_for(loop, shop, 90)

    assert len(shop.trials) == 1
    assert watched.resumed_names == ["public.a"]
    assert [at for at, _ in shop.refreshes] == pytest.approx([70, 80], abs=1)


def test_what_a_person_suspended_is_never_tried(shop: Shop, loop: Loop) -> None:
    shop.add("a")
    shop.suspend("public.a")

    run_for(loop, shop, 3600)

    assert shop.trials == []


def test_one_that_takes_long_to_fail_is_tried_all_the_more_rarely(shop: Shop, loop: Loop) -> None:
    shop.takes = timedelta(minutes=10)
    shop.add("a")
    shop.suspend("public.a", by="ST407")
    shop.trouble["public.a"] = SourceNotFoundError("it is gone")

    run_for(loop, shop, 4 * 3600)

    assert [at for at, _ in shop.trials] == pytest.approx([60, 6660, 13260], abs=5)


def test_many_are_tried_one_at_a_time_and_none_is_forgotten(shop: Shop, loop: Loop) -> None:
    for name in "abcde":
        shop.add(name)
        shop.suspend(f"public.{name}", by="ST301")
    shop.held = {"public.c"}

    run_for(loop, shop, 100)

    assert [name for _, name in shop.trials] == [f"public.{name}" for name in "abde"]


def test_table_that_somebody_resumes_is_refreshed_at_once(shop: Shop, loop: Loop) -> None:
    shop.add("a", schedule="1s")
    shop.trouble["public.a"] = SourceNotFoundError("it is gone")
    run_for(loop, shop, 300)
    shop.suspend("public.a", by="ST301")
    loop.run_once(threading.Event())
    at = len(shop.refreshes)
    shop.tables["public.a"] = replace(
        shop.tables["public.a"], status=Status.ACTIVE, suspended_by=None
    )

    loop.run_once(threading.Event())

    assert len(shop.refreshes) == at + 1


def test_cancelled_refresh_comes_again_when_it_is_due(
    shop: Shop, loop: Loop, watched: Watched
) -> None:
    shop.add("a", schedule="1s")
    shop.trouble["public.a"] = RefreshCancelledError("somebody did")

    run_for(loop, shop, 10)

    assert len(shop.refreshes) == pytest.approx(9, abs=1)
    assert {code for _, code, _ in watched.failures} == {"ST214"}
