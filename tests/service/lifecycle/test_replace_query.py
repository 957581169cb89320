"""Another query for the same stream table: all at once, or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest

from pgtrickle.catalog.refreshes.history import list_refresh_statistics
from pgtrickle.errors import (
    CircularDependencyError,
    ColumnsDifferError,
    DataError,
    DependentsExistError,
    LeaseHeldError,
    TrickleError,
)
from pgtrickle.model.stream_table import Action, Status
from pgtrickle.service.lifecycle.replacing import replace_query
from pgtrickle.service.lifecycle.replacing.successors import discard_abandoned
from tests.labs.hearing import heard
from tests.labs.lab import Lab

SHOP = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v int)",
    "INSERT INTO t SELECT n, n % 5, n FROM generate_series(1, 50) AS n",
    "CREATE TABLE u (id int PRIMARY KEY, k int, v int)",
    "INSERT INTO u SELECT n, n % 3, -n FROM generate_series(1, 20) AS n",
)
SUMS = "SELECT k, sum(v) AS v FROM t GROUP BY k"
COUNTS = "SELECT k, sum(v) AS v, count(*) AS n FROM t GROUP BY k"
OF_U = "SELECT k, sum(v) AS v FROM u GROUP BY k"
JOINED = "SELECT t.k, sum(t.v + u.v) AS v FROM t JOIN u ON u.id = t.id GROUP BY t.k"
TOP = "SELECT max(v) AS v FROM s"


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(*SHOP)
    lab.create("s", SUMS)
    return lab


def put(lab: Lab, query: str, name: str = "s") -> None:
    lab.trickle.alter_stream_table(name, query=query)
    lab.queries[name] = query
    lab.check(name)


def identity(lab: Lab) -> object:
    return lab.rows(
        "SELECT pgt_id, pgt_relid::int8, 's'::regclass::oid::int8"
        " FROM pgtrickle.pgt_stream_tables WHERE pgt_name = 's'"
    )


def triggers(lab: Lab) -> list[str]:
    return [
        name
        for (name,) in lab.rows(
            "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger"
            " WHERE tgname LIKE 'pgtrickle%' AND tgname <> 'pgtrickle_guard'"
        )
    ]


def kept(lab: Lab) -> list[str]:
    """List the tables that hold changes or state."""
    return [
        name
        for (name,) in lab.rows(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace IN"
            " ('pgtrickle_changes'::regnamespace, 'pgtrickle_state'::regnamespace)"
        )
    ]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("SELECT k, sum(v) AS v FROM t WHERE v > 10 GROUP BY k", id="filter"),
        pytest.param(OF_U, id="another source"),
        pytest.param(JOINED, id="one more source"),
        pytest.param("SELECT k, v::bigint AS v FROM t", id="no state any more"),
        pytest.param("SELECT DISTINCT k, (v % 3)::bigint AS v FROM t", id="other state"),
        pytest.param(COUNTS, id="a column more"),
        pytest.param("SELECT k FROM t GROUP BY k", id="a column less"),
        pytest.param("SELECT sum(v) AS v, max(k) AS most FROM t", id="other columns"),
    ],
)
def test_new_query_takes_effect_and_is_maintained(shop: Lab, query: str):
    before = identity(shop)

    put(shop, query)
    [replaced] = shop.trickle.refresh_history("s", limit=1)
    shop.window(
        "UPDATE t SET v = v + 7 WHERE id < 9",
        "DELETE FROM t WHERE k = 4",
        "DELETE FROM u WHERE id = 3",
    )

    assert identity(shop) == before
    assert replaced.action is Action.REINITIALIZE
    assert replaced.reason == "its query was replaced"


def test_sources_come_and_go_with_their_triggers_and_state(shop: Lab):
    assert triggers(shop) == ["t"]

    put(shop, JOINED)
    both = triggers(shop)
    put(shop, "SELECT k, v::bigint AS v FROM u")

    assert both == ["t", "u"]
    assert triggers(shop) == ["u"]
    assert [name for name in kept(shop) if name.startswith("st_")] == []
    shop.trickle.drop_stream_table("s")
    assert shop.leftovers() == []


def test_same_query_in_other_words_changes_nothing(shop: Lab):
    before = shop.rows("SELECT xmin::text, ctid::text FROM s")

    shop.trickle.alter_stream_table("s", query="select k,  SUM(v) as v\nfrom t group by k")

    assert shop.rows("SELECT xmin::text, ctid::text FROM s") == before


def test_grants_indexes_views_and_readers_stay(shop: Lab):
    shop.run(
        "CREATE INDEX s_by_k ON s (k)",
        "GRANT SELECT ON s TO PUBLIC",
        "CREATE VIEW of_s AS SELECT k, v FROM s WHERE v > 3",
    )
    shop.create("top", TOP)

    put(shop, "SELECT k, sum(v) * 2 AS v, count(*) AS n FROM t GROUP BY k")
    shop.refresh("top")

    assert shop.value("SELECT has_table_privilege('public', 's', 'SELECT')")
    assert shop.value("SELECT count(*) FROM pg_indexes WHERE indexname = 's_by_k'") == 1
    assert shop.value("SELECT count(*) FROM of_s") == 5


def test_unchanged_rows_are_left_alone(shop: Lab):
    before: dict[int, str] = dict(shop.rows("SELECT k, ctid::text FROM s"))

    put(shop, "SELECT k, sum(v) AS v FROM t WHERE id <> 5 GROUP BY k")

    after: dict[int, str] = dict(shop.rows("SELECT k, ctid::text FROM s"))
    assert {k for k in before if before[k] != after[k]} == {0}


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("SELECT k::bigint AS k, sum(v) AS v FROM t GROUP BY k", id="another type"),
        pytest.param("SELECT sum(v) AS v, k FROM t GROUP BY k", id="another order"),
        pytest.param("SELECT count(*) AS n, k, sum(v) AS v FROM t GROUP BY k", id="new one first"),
    ],
)
def test_columns_that_cannot_be_had_in_place_are_refused(shop: Lab, query: str):
    with pytest.raises(ColumnsDifferError) as caught:
        shop.trickle.alter_stream_table("s", query=query)

    assert "drop the stream table" in caught.value.hint
    assert_as_it_was(shop)


def assert_as_it_was(lab: Lab) -> None:
    """Check that the stream table goes on with its old query, and nothing is left over."""
    assert [name for name in kept(lab) if "next" in name] == []
    assert lab.rows(
        "SELECT pgt_schema FROM pgtrickle.pgt_stream_tables WHERE pgt_name <> 'top'"
    ) == [("public",)]
    assert "u" not in triggers(lab)
    lab.run("UPDATE t SET v = v + 1 WHERE id = 7")
    lab.refresh("s")


def test_columns_that_others_need_are_not_taken_from_them(shop: Lab):
    shop.create("top", TOP)
    with pytest.raises(DependentsExistError, match=r"public\.top") as reader:
        shop.trickle.alter_stream_table("s", query="SELECT k FROM t GROUP BY k")
    shop.run("CREATE VIEW of_s AS SELECT k FROM s")
    with pytest.raises(DependentsExistError) as view:
        shop.trickle.alter_stream_table("s", query="SELECT sum(v) AS v FROM t")

    assert "v" in str(reader.value)
    assert "of_s" in view.value.detail
    assert_as_it_was(shop)


def test_circle_is_refused_with_its_path(shop: Lab):
    shop.create("top", TOP)

    with pytest.raises(CircularDependencyError, match=r"public\.top") as below:
        shop.trickle.alter_stream_table("s", query="SELECT 1 AS k, v FROM top")
    with pytest.raises(CircularDependencyError) as itself:
        shop.trickle.alter_stream_table("s", query="SELECT k, v FROM s")

    assert below.value.hint
    assert itself.value.hint
    assert_as_it_was(shop)


def test_query_that_fails_leaves_the_old_one_at_work(shop: Lab):
    with pytest.raises(DataError):
        shop.trickle.alter_stream_table(
            "s", query="SELECT k, sum(100 / (v + 3)) AS v FROM u GROUP BY k", schedule="7m"
        )

    assert shop.trickle.get_stream_table("s").schedule != "7m"
    assert_as_it_was(shop)


def test_failure_in_the_last_moment_takes_everything_back(shop: Lab):
    shop.run(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'not today'; END$$",
        "CREATE TRIGGER fail AFTER DELETE ON s FOR EACH STATEMENT EXECUTE FUNCTION fail()",
    )
    with pytest.raises(TrickleError, match="P0001"):
        shop.trickle.alter_stream_table("s", query=OF_U)
    shop.run("DROP TRIGGER fail ON s")

    assert_as_it_was(shop)


def test_the_rest_of_the_alteration_comes_with_the_query(shop: Lab):
    table = shop.trickle.alter_stream_table(
        "s", query=OF_U, schedule="7m", refresh_mode="FULL", status="SUSPENDED"
    )

    assert (table.schedule, table.refresh_mode.value) == ("7m", "FULL")
    assert table.status is Status.SUSPENDED
    shop.queries["s"] = OF_U
    shop.check("s")


def test_suspended_stays_suspended_and_gets_the_new_contents(shop: Lab):
    shop.trickle.alter_stream_table("s", status="SUSPENDED")

    put(shop, OF_U)

    assert shop.trickle.get_stream_table("s").status is Status.SUSPENDED


def test_readers_see_the_old_or_the_new_rows_and_never_others(shop: Lab):
    old, new = shop.rows(SUMS), shop.rows(OF_U)
    seen: list[object] = []
    with reading(shop, seen):
        put(shop, OF_U)

    assert seen
    assert all(rows in (old, new) for rows in seen)


@contextmanager
def reading(lab: Lab, seen: list[object]) -> Iterator[None]:
    """Read the stream table all the while, once before and once after at least."""
    done = threading.Event()

    def read() -> None:
        with psycopg.connect(lab.trickle.dsn, autocommit=True) as connection:
            while True:
                last = done.is_set()
                seen.append(sorted(connection.execute("SELECT * FROM s").fetchall(), key=repr))
                if last:
                    return

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_old_query_is_refreshed_while_the_new_one_is_loaded(shop: Lab):
    """Contents never go back in time: what was refreshed meanwhile is in the successor too."""

    def meanwhile() -> None:
        shop.run("INSERT INTO t VALUES (99, 1, 1000)")
        shop.trickle.refresh_stream_table("s")

    shop.before_next_stage(meanwhile)
    put(shop, "SELECT k, sum(v) + 1 AS v FROM t GROUP BY k")

    shop.window("DELETE FROM t WHERE id = 99")


def test_second_replacement_waits_its_turn(shop: Lab):
    caught: list[TrickleError] = []

    def meanwhile() -> None:
        with pytest.raises(LeaseHeldError) as refused:
            shop.trickle.alter_stream_table("s", query=OF_U)
        caught.append(refused.value)

    shop.before_next_stage(meanwhile)
    put(shop, COUNTS)

    assert "is being replaced already" in str(caught[0])


def test_drop_meanwhile_ends_it_without_a_trace(shop: Lab):
    shop.before_next_stage(lambda: shop.trickle.drop_stream_table("s"))

    with pytest.raises(TrickleError) as caught:
        shop.trickle.alter_stream_table("s", query=OF_U)

    assert caught.value.code == "ST201"
    shop.queries.clear()
    assert shop.leftovers() == []


def test_what_a_dead_process_left_is_cleared_away(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise SystemExit

    runtime = shop.trickle._runtime
    shop.before_next_stage(die)
    with monkeypatch.context() as patched:
        patched.setattr(replace_query, "discard", lambda *_: None)
        with pytest.raises(SystemExit):
            shop.trickle.alter_stream_table("s", query=OF_U)
    discard_abandoned(runtime)
    before = kept(shop)
    shop.run("UPDATE pgtrickle.pgt_successors SET alive_until = now() - interval '1 s'")
    discard_abandoned(runtime)

    assert any(name.startswith("next_") for name in before)  # its maker might be alive
    assert_as_it_was(shop)


def test_new_query_below_a_diamond_reads_one_moment(shop: Lab):
    """What the new query reads is refreshed with it, so that it never mixes two versions."""
    shop.create("a", "SELECT k, sum(v) AS v FROM t GROUP BY k")
    shop.create("b", "SELECT k, -sum(v) AS v FROM t GROUP BY k")
    shop.run("UPDATE t SET v = v + 1000")
    shop.trickle.refresh_stream_table("a")

    put(shop, "SELECT a.k, a.v + b.v AS v FROM a JOIN b ON b.k = a.k")

    assert {v for _, v in shop.rows("SELECT k, v FROM s")} == {0}


STATUS = (
    "pgt_status()",
    "stream_tables_info",
    "refresh_timeline()",
    "dependency_tree()",
    "refresh_efficiency()",
    "sla_summary()",
    "health_check()",
    "quick_health",
    "explain_dag()",
    "bootstrap_gate_status()",
    "fuse_status()",
    "list_holds()",
    "change_buffer_sizes()",
    "check_cdc_health()",
    "ducklake_sink_status()",
    "refresh_groups()",
    "watermark_status()",
    "list_subscriptions()",
    "list_sources('s')",
    "explain_st('s')",
)


def test_sql_shows_the_stream_table_once_while_its_successor_is_loaded(shop: Lab):
    shop.run(
        "SELECT pgtrickle.gate_source('u')",
        "INSERT INTO pgtrickle.pgt_scheduler_pauses VALUES (NULL)",
    )
    told: dict[str, str] = {}
    replaced: list[object] = []

    def look() -> None:
        told.update({one: str(shop.rows(f"SELECT * FROM pgtrickle.{one}")) for one in STATUS})
        replaced.extend(
            shop.rows("SELECT pgt_name, being_replaced FROM pgtrickle.stream_tables_info")
        )
        replaced.append(shop.value("SELECT stream_tables FROM pgtrickle.quick_health"))
        with pytest.raises(psycopg.Error) as unknown:
            shop.run(
                "SELECT pgtrickle.get_staleness('pgtrickle_state.' || pgt_name)"
                " FROM pgtrickle.pgt_stream_tables WHERE pgt_name LIKE 'next%'"
            )
        replaced.append(unknown.value.sqlstate)

    shop.before_next_stage(look)
    try:
        put(shop, JOINED)
    finally:
        shop.run(
            "DELETE FROM pgtrickle.pgt_source_gates", "DELETE FROM pgtrickle.pgt_scheduler_pauses"
        )

    assert [one for one, text in told.items() if "next_" in text or "pgtrickle_state" in text] == []
    assert "public.s" in told["pgt_status()"]
    assert replaced == [("s", True), 1, "ST201"]
    assert shop.rows("SELECT being_replaced FROM pgtrickle.stream_tables_info") == [(False,)]


def test_history_statistics_and_channels_know_nothing_of_the_successor(shop: Lab):
    with psycopg.connect(shop.trickle.dsn, autocommit=True) as listener:
        listener.execute("LISTEN pg_trickle_refresh")
        named: list[set[str]] = []

        def look() -> None:
            named.append({str(one.stream_table) for one in shop.trickle.refresh_history()})
            found = list_refresh_statistics(shop.connection, timedelta(days=1))
            named.append({str(one.stream_table) for one in found})

        # The first stage loads the successor, the second brings it up to date under the lease.
        shop.before_next_stage(lambda: shop.run("UPDATE u SET v = v + 1"))
        shop.before_next_stage(look)
        put(shop, OF_U)
        payloads = heard(shop, listener, "pg_trickle_refresh")

    assert named == [{"public.s"}] * 2
    assert {json.loads(one)["name"] for one in payloads} == {"public.s"}


def test_successor_is_not_shown(shop: Lab):
    listed: list[object] = []

    def look() -> None:
        listed.append([str(one.name) for one in shop.trickle.list_stream_tables()])
        listed.append(list(shop.trickle.insight.dependencies()))
        listed.append(list(shop.trickle.daemon.shape().reads))

    shop.before_next_stage(look)
    put(shop, OF_U)

    assert listed == [["public.s"]] * 3
