"""A new query beside the old one: it follows, takes its place or is given up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from pgtrickle.errors import (
    ConnectionLostError,
    DataError,
    DependentsExistError,
    LeaseHeldError,
    ShadowNotConvergingError,
    ShadowNotFoundError,
    ShadowRefusedError,
    TrickleError,
)
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action
from pgtrickle.service.lifecycle.replacing.successors import discard_abandoned
from pgtrickle.service.lifecycle.shadows import advance
from pgtrickle.service.lifecycle.shadows.run import follow_due, following_shadows
from pgtrickle.service.refreshing.dispatch import refresh_stream_table
from pgtrickle.service.requests.server import RequestServer
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.service.lifecycle.test_replace_query import (
    COUNTS,
    OF_U,
    SHOP,
    STATUS,
    SUMS,
    assert_as_it_was,
    identity,
    reading,
)


@contextmanager
def settings(lab: Lab, **values: Any) -> Iterator[None]:
    runtime = lab.trickle._runtime
    before = runtime.settings
    runtime.settings = replace(before, **values)
    try:
        yield
    finally:
        runtime.settings = before


@pytest.fixture
def shop(lab: Lab) -> Iterator[Lab]:
    lab.run(*SHOP)
    lab.create("s", SUMS)
    with settings(lab, shadow_refresh_throttle_ms=0):
        yield lab


def build(lab: Lab, query: str, **words: Any) -> None:
    lab.trickle.alter_stream_table("s", query=query, shadow_build=True, **words)


def status(lab: Lab) -> Any:
    found = lab.trickle.shadows.view_evolution_status("s")
    assert found is not None
    return found


def test_shadow_takes_the_place_of_the_old_query(shop: Lab):
    before = identity(shop)
    shop.create("top", "SELECT max(v) AS v FROM s")

    build(shop, OF_U)
    [switched] = shop.trickle.refresh_history("s", limit=1)
    shop.queries["s"] = OF_U
    shop.window("UPDATE u SET v = v + 7 WHERE id < 9")
    ended = status(shop)

    assert identity(shop) == before
    assert (ended.state, ended.converged, ended.shadow_table_name) == ("promoted", True, None)
    assert ended.query == OF_U
    assert switched.action is Action.REINITIALIZE
    assert switched.reason == "its query was replaced by that of its shadow"
    shop.trickle.drop_stream_table("s", cascade=True)
    assert shop.leftovers() == []


def test_held_shadow_follows_and_readers_see_the_old_rows_until_it_is_promoted(shop: Lab):
    before = shop.rows("TABLE s")

    build(shop, COUNTS, hold=True)
    ready = status(shop)
    listed = "SELECT in_shadow_build, shadow_table_name FROM pgtrickle.stream_tables_info"
    told = shop.rows(listed)
    shop.run("UPDATE t SET v = v + 1000 WHERE id < 9")
    behind = status(shop)
    shop.run("UPDATE pgtrickle.pgt_shadow_builds SET next_round_at = now()")
    follow_due(shop.trickle._runtime)
    followed = status(shop)

    assert shop.rows("TABLE s") == before
    assert (ready.state, ready.converged, ready.rows_loaded) == ("ready", True, 5)
    assert told == [(True, ready.shadow_table_name)]
    assert (behind.lag_changes, followed.lag_changes) == (8, 0)
    assert followed.refreshes == ready.refreshes + 1
    shop.refresh("s")
    report = shop.trickle.shadows.promote_shadow("s")
    shop.queries["s"] = COUNTS
    shop.check("s")
    assert report.rows_inserted == 5  # with a column more
    assert shop.rows(listed) == [(False, None)]
    shop.window("DELETE FROM t WHERE k = 2")


def test_unchanged_rows_are_left_alone(shop: Lab):
    before: dict[int, str] = dict(shop.rows("SELECT k, ctid::text FROM s"))

    build(shop, "SELECT k, sum(v) AS v FROM t WHERE id <> 5 GROUP BY k")

    after: dict[int, str] = dict(shop.rows("SELECT k, ctid::text FROM s"))
    assert {k for k in before if before[k] != after[k]} == {0}


def test_query_that_reads_nothing_is_followed_and_put_in_force(shop: Lab):
    build(shop, "SELECT k, k * 2::bigint AS v FROM (VALUES (1), (7)) AS c (k)", hold=True)
    assert (status(shop).state, status(shop).lag_changes) == ("ready", 0)

    shop.trickle.shadows.promote_shadow("s")

    assert shop.rows("TABLE s") == [(1, 2), (7, 14)]
    assert shop.trickle.refresh_stream_table("s").action.value == "NO_DATA"


def test_cancelled_build_leaves_everything_as_it_was(shop: Lab):
    build(shop, OF_U, hold=True)

    shop.trickle.shadows.cancel_shadow("s")

    assert status(shop).state == "cancelled"
    assert_as_it_was(shop)
    with pytest.raises(ShadowNotFoundError):
        shop.trickle.shadows.cancel_shadow("s")
    with pytest.raises(ShadowNotFoundError):
        shop.trickle.shadows.promote_shadow("s")


def test_query_that_fails_is_rolled_back_with_its_reason(shop: Lab):
    with pytest.raises(DataError):
        build(shop, "SELECT k, sum(100 / (v + 3)) AS v FROM u GROUP BY k")

    ended = status(shop)
    assert (ended.state, ended.shadow_table_name) == ("failed", None)
    assert ended.last_error.startswith("ST407: ")
    assert_as_it_was(shop)


def test_query_that_fails_later_is_rolled_back_too(shop: Lab):
    build(shop, "SELECT k, sum(100 / (v + 30)) AS v FROM u GROUP BY k", hold=True)
    shop.run("UPDATE u SET v = -30 WHERE id = 1")
    shop.run("UPDATE pgtrickle.pgt_shadow_builds SET next_round_at = now()")

    follow_due(shop.trickle._runtime)

    assert status(shop).state == "failed"
    assert "22012" in status(shop).last_error
    assert_as_it_was(shop)


def test_switch_that_fails_is_rolled_back(shop: Lab):
    shop.run(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'not today'; END$$",
        "CREATE TRIGGER fail AFTER DELETE ON s FOR EACH STATEMENT EXECUTE FUNCTION fail()",
    )
    with pytest.raises(TrickleError, match="P0001"):
        build(shop, OF_U)
    shop.run("DROP TRIGGER fail ON s")

    assert status(shop).state == "failed"
    assert "P0001" in status(shop).last_error
    assert_as_it_was(shop)


def test_promotion_by_hand_that_fails_can_be_repeated(shop: Lab):
    build(shop, "SELECT k FROM t GROUP BY k", hold=True)
    shop.run("CREATE VIEW of_s AS SELECT v FROM s")
    with pytest.raises(DependentsExistError):
        shop.trickle.shadows.promote_shadow("s")
    told = status(shop)
    shop.run("DROP VIEW of_s")

    shop.trickle.shadows.promote_shadow("s")

    assert told.state == "ready"
    assert told.last_error.startswith("ST207: ")
    assert shop.rows("TABLE s") == [(k,) for k in range(5)]


def test_shadow_that_does_not_converge_is_given_up(shop: Lab, monkeypatch: pytest.MonkeyPatch):
    refresh = refresh_stream_table

    def refresh_under_load(*given: Any, **named: Any) -> RefreshReport:
        report = refresh(*given, **named)
        shop.run("UPDATE u SET v = v - 1 WHERE id <= 7")
        return report

    monkeypatch.setattr(advance, "refresh_stream_table", refresh_under_load)
    with (
        settings(shop, shadow_converged_ms=1, shadow_stalled_refreshes=2),
        pytest.raises(ShadowNotConvergingError),
    ):
        build(shop, OF_U)

    ended = status(shop)
    assert (ended.state, ended.converged) == ("failed", False)
    assert ended.last_error.startswith("ST227: ")
    assert ended.refreshes == 3  # the load, and two that brought it no closer
    assert_as_it_was(shop)


def test_error_that_may_pass_is_recorded_and_the_build_goes_on(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
):
    build(shop, OF_U, hold=True)
    for times in range(1, advance.MOST_FAILURES + 1):
        with monkeypatch.context() as patched:
            patched.setattr(advance, "refresh_stream_table", _lose_connection)
            shop.run("UPDATE pgtrickle.pgt_shadow_builds SET next_round_at = now()")
            follow_due(shop.trickle._runtime)
        told = status(shop)
        assert told.state == ("ready" if times < advance.MOST_FAILURES else "failed")
        assert told.last_error == "ST401: it is gone"
    assert_as_it_was(shop)


def _lose_connection(*_: object, **__: object) -> None:
    raise ConnectionLostError("it is gone")


def test_shadow_that_somebody_dropped_ends_its_build(shop: Lab):
    shop.run("CREATE TABLE w AS TABLE u")
    shop.create("below", "SELECT k, v FROM w")
    build(shop, "SELECT k, sum(v) AS v FROM below GROUP BY k", hold=True)
    shop.trickle.drop_stream_table("below", cascade=True)
    del shop.queries["below"]
    shop.run("UPDATE pgtrickle.pgt_shadow_builds SET next_round_at = now()")

    follow_due(shop.trickle._runtime)

    assert (status(shop).state, status(shop).shadow_table_name) == ("failed", None)
    assert_as_it_was(shop)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param({"shadow_build": True}, id="no query"),
        pytest.param({"allow_breaking": True, "schedule": "7m"}, id="breaking without a query"),
        pytest.param({"query": OF_U, "hold": True}, id="hold without a shadow"),
        pytest.param({"query": OF_U, "shadow_build": True, "schedule": "7m"}, id="other options"),
        pytest.param(
            {"query": OF_U, "shadow_build": True, "refresh_mode": "IMMEDIATE"}, id="immediate"
        ),
    ],
)
def test_words_that_do_not_fit_are_refused(shop: Lab, words: dict[str, Any]):
    with pytest.raises(ShadowRefusedError) as caught:
        shop.trickle.alter_stream_table("s", **words)

    assert caught.value.hint
    assert_as_it_was(shop)


def test_what_does_not_go_with_a_shadow_build_is_refused(shop: Lab):
    build(shop, COUNTS, hold=True)

    for words in (
        {"query": OF_U},
        {"query": OF_U, "shadow_build": True},
        {"refresh_mode": "FULL"},
        {"refresh_mode": "IMMEDIATE"},
    ):
        with pytest.raises(ShadowRefusedError, match="shadow build"):
            shop.trickle.alter_stream_table("s", **words)
    shop.trickle.alter_stream_table("s", schedule="7m")
    shop.trickle.rename_stream_table("s", "renamed")
    shop.trickle.shadows.promote_shadow("renamed")

    assert shop.trickle.get_stream_table("renamed").schedule == "7m"
    assert shop.rows("TABLE renamed") == shop.rows(COUNTS)


def test_circles_and_immediate_stream_tables_are_refused(shop: Lab):
    shop.create("top", "SELECT DISTINCT k, v FROM s", mode="AUTO")
    with settings(shop, allow_circular=True), pytest.raises(ShadowRefusedError, match="itself"):
        build(shop, "SELECT k, v FROM top UNION SELECT k, v::bigint FROM u", refresh_mode="AUTO")
    shop.trickle.drop_stream_table("top")
    del shop.queries["top"]
    shop.trickle.alter_stream_table("s", refresh_mode="IMMEDIATE")

    with pytest.raises(ShadowRefusedError, match="writers"):
        build(shop, OF_U)


def test_new_refresh_mode_comes_with_the_query(shop: Lab):
    build(shop, OF_U, refresh_mode="FULL")

    assert shop.trickle.get_stream_table("s").refresh_mode.value == "FULL"


def test_drop_takes_the_shadow_along(shop: Lab):
    build(shop, OF_U, hold=True)

    gone = shop.trickle.drop_stream_table("s")

    assert gone == ["public.s"]
    assert shop.leftovers() == []


def test_sql_shows_the_stream_table_once_while_it_has_a_shadow(shop: Lab):
    build(shop, COUNTS, hold=True)
    shown = {one: str(shop.rows(f"SELECT * FROM pgtrickle.{one}")) for one in STATUS}

    told = [one for one, text in shown.items() if "pgt_shadow" in text or "_state" in text]
    assert told == ["stream_tables_info"]  # which names it
    assert [str(one.name) for one in shop.trickle.list_stream_tables()] == ["public.s"]


def test_daemon_goes_on_with_it_and_switches_by_itself(shop: Lab):
    """With a daemon, the alteration ends at once, and nobody takes the shadow for abandoned."""
    runtime = shop.trickle._runtime
    with RequestServer(runtime):
        build(shop, OF_U)
        begun = status(shop)
        discard_abandoned(runtime)
        with following_shadows(runtime, lambda: True):
            await_(lambda: status(shop).state == "promoted")

    assert (begun.state, begun.refreshes) == ("loading", 0)
    shop.queries["s"] = OF_U
    shop.window("UPDATE u SET v = v + 7 WHERE id < 9")


def test_readers_see_the_old_or_the_new_rows_and_never_others(shop: Lab):
    old, new = shop.rows(SUMS), shop.rows(OF_U)
    seen: list[object] = []
    with reading(shop, seen):
        build(shop, OF_U)

    assert seen
    assert all(rows in (old, new) for rows in seen)


def test_comparison_tells_rows_and_columns(shop: Lab):
    build(shop, "SELECT k, sum(v) AS v, count(*) AS n FROM t WHERE id <> 5 GROUP BY k", hold=True)
    shop.run("UPDATE t SET v = v + 100 WHERE id = 1")

    found = shop.trickle.shadows.compare_shadow("s")

    assert found.same_moment
    assert (found.columns_added, found.columns_dropped, found.columns_retyped) == (("n",), (), ())
    assert found.compared_columns == ("k", "v")
    assert (found.rows, found.shadow_rows) == (5, 5)
    changes = {(one.change, one.row["k"], one.row["v"]) for one in found.changes}
    assert changes == {("removed", 0, 275), ("added", 0, 270)}
    assert (found.rows_added, found.rows_removed) == (1, 1)
    assert (found.same, found.complete) == (False, True)
    shop.check("s")  # it was refreshed for the comparison


def test_comparison_works_while_the_old_query_fails(shop: Lab):
    shop.trickle.alter_stream_table("s", query="SELECT k, sum(100 / v) AS v FROM t GROUP BY k")
    build(shop, "SELECT k, sum(100 / nullif(v, 0)) AS v FROM t GROUP BY k", hold=True)
    shop.run("UPDATE t SET v = 0 WHERE id = 50")

    found = shop.trickle.shadows.compare_shadow("s", 1)

    assert not found.same_moment
    assert found.note is not None
    assert "22012" in found.note
    shop.trickle.shadows.promote_shadow("s")
    shop.queries["s"] = "SELECT k, sum(100 / nullif(v, 0)) AS v FROM t GROUP BY k"
    shop.window("UPDATE t SET v = 0 WHERE id = 49")


def test_build_under_load_loses_nothing_and_doubles_nothing(shop: Lab):
    """Writers and refreshes of the old query go on all the while, and a reader of it, too."""
    shop.create("top", "SELECT sum(v) AS v, count(*) AS n FROM s")
    done = threading.Event()

    def write() -> None:
        with psycopg.connect(shop.trickle.dsn, autocommit=True) as connection:
            number = 1000
            while not done.is_set():
                number += 1
                connection.execute("INSERT INTO t VALUES (%s, %s, %s)", [number, number % 7, 1])
                connection.execute("UPDATE t SET v = v + 1 WHERE id = %s", [number - 5])
                connection.execute("DELETE FROM t WHERE id = %s", [number - 9])

    def refresh() -> None:
        while not done.is_set():
            with suppress(LeaseHeldError):
                shop.trickle.refresh_stream_table("s")
            with suppress(LeaseHeldError):
                shop.trickle.refresh_stream_table("top")

    threads = [threading.Thread(target=work) for work in (write, refresh)]
    for thread in threads:
        thread.start()
    new = "SELECT k, sum(v * 2) AS v FROM t WHERE k <> 3 GROUP BY k"
    try:
        for query in (new, SUMS, new):
            build(shop, query)
    finally:
        done.set()
        for thread in threads:
            thread.join()

    shop.queries["s"] = new
    shop.trickle.refresh_stream_table("s")
    shop.trickle.refresh_stream_table("top")
    shop.check("s")
    shop.check("top")
