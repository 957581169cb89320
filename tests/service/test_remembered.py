"""What a process remembers of stream tables has a limit, and goes when it is of no use any more."""

from __future__ import annotations

import pytest

from pgtrickle.service.remembered import Remembered
from tests.labs.lab import Lab

QUERY = "SELECT k, count(*) AS n FROM t GROUP BY k"


@pytest.fixture
def shop(lab: Lab) -> Lab:
    """Make a table and a stream table of it."""
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    lab.create("s", QUERY)
    lab.trickle.insight.clear_caches()
    return lab


def change(lab: Lab) -> None:
    lab.run("UPDATE t SET k = k + 1")


def test_second_refresh_finds_the_query_compiled(shop: Lab) -> None:
    before = shop.trickle.insight.cache_stats()
    for _ in range(2):
        change(shop)
        shop.trickle.refresh_stream_table("s")
    after = shop.trickle.insight.cache_stats()

    assert (after.misses - before.misses, after.hits - before.hits) == (1, 1)
    assert after.entries == 1
    assert after.plans > 0


def test_cleared_caches_compile_again(shop: Lab) -> None:
    change(shop)
    shop.refresh("s")

    assert shop.trickle.insight.clear_caches() == 1
    assert shop.trickle.insight.cache_stats().entries == 0
    change(shop)
    shop.refresh("s")
    assert shop.trickle.insight.cache_stats().entries == 1


def test_limit_forgets_the_query_that_was_not_used_for_longest(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop.trickle._runtime, "remembered", Remembered(limit=2))
    for name in ("a", "b"):
        shop.create(name, QUERY)
    for name in ("s", "a", "b"):
        change(shop)
        shop.refresh(name)
    stats = shop.trickle.insight.cache_stats()

    assert (stats.entries, stats.max_entries) == (2, 2)
    assert stats.evictions >= 1


def test_dropped_stream_table_is_forgotten(shop: Lab) -> None:
    change(shop)
    shop.refresh("s")

    shop.trickle.drop_stream_table("s")

    assert shop.trickle.insight.cache_stats().entries == 0


def test_scheduler_forgets_what_another_process_has_dropped(shop: Lab) -> None:
    shop.create("other", QUERY)
    change(shop)
    shop.refresh("s")
    shop.refresh("other")
    assert shop.trickle.insight.cache_stats().entries == 2
    shop.run("DROP TABLE other", "DELETE FROM pgtrickle.pgt_stream_tables WHERE pgt_name = 'other'")

    shop.trickle.daemon.list_stream_tables()

    assert shop.trickle.insight.cache_stats().entries == 1


def test_many_alterations_leave_one_entry(shop: Lab) -> None:
    for number in range(5):
        shop.trickle.alter_stream_table("s", query=f"{QUERY} HAVING count(*) > {number - 10}")
        change(shop)
        shop.trickle.refresh_stream_table("s")

    assert shop.trickle.insight.cache_stats().entries == 1
