"""Stream tables and sources that are renamed or moved: they are the same, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

import pgtrickle
from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import TrickleError
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab

COUNTS = "SELECT k, count(*) AS n, max(v) AS v FROM t GROUP BY k"


@pytest.fixture
def shop(lab: Lab) -> Iterator[Lab]:
    """Go without event triggers, as an ordinary role does."""
    with lab.unwatched():
        yield watched_shop(lab)


def watched_shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, v text)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b')",
        "CREATE SCHEMA other",
    )
    lab.create("counts", COUNTS)
    return lab


@pytest.fixture
def new_process(shop: Lab, duckdb_engine: DuckDbEngine) -> Iterator[Callable[[], Trickle]]:
    """Open further clients, which have compiled nothing yet."""
    opened: list[Trickle] = []

    def connect() -> Trickle:
        opened.append(pgtrickle.connect(shop.trickle.dsn, engine=Borrowed(duckdb_engine)))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def code_of(trickle: Trickle, name: str) -> str:
    with pytest.raises(TrickleError) as caught:
        trickle.refresh_stream_table(name)
    assert caught.value.hint
    return caught.value.code


def retold(lab: Lab, **queries: str) -> None:
    """Say what the stream tables are called and hold from now on."""
    lab.queries = queries


SOURCE = {
    "renamed": ("ALTER TABLE t RENAME TO sales", "sales"),
    "moved": ("ALTER TABLE t SET SCHEMA other", "other.t"),
    "odd": ('ALTER TABLE t RENAME TO "O""dd sales"', '"O""dd sales"'),
    "keyword": ('ALTER TABLE t RENAME TO "order"', '"order"'),
    "its schema": ("ALTER SCHEMA public RENAME TO main", "main.t"),
}


@pytest.mark.parametrize(("statement", "now"), SOURCE.values(), ids=SOURCE.keys())
@pytest.mark.parametrize("process", ["same", "new"])
def test_source_is_renamed(
    shop: Lab, new_process: Callable[[], Trickle], statement: str, now: str, process: str
):
    own = "main.counts" if "main" in now else "counts"
    shop.run("INSERT INTO t VALUES (3, 2, 'c')", statement)
    shop.run(f"INSERT INTO {now} VALUES (4, 2, 'd')")
    retold(shop, **{own: f"SELECT k, count(*) AS n, max(v) AS v FROM {now} GROUP BY k"})
    trickle = shop.trickle if process == "same" else new_process()

    assert trickle.refresh_stream_table(own).action.value == "DIFFERENTIAL"

    shop.check(own)
    assert trickle.verify_stream_table(own).ok
    table = trickle.get_stream_table(own)
    for text in (table.defining_query, table.original_query):
        assert shop.rows(f"{text} EXCEPT ALL TABLE {own}") == []
    shop.window(f"DELETE FROM {now} WHERE id = 1")
    trickle.drop_stream_table(own)
    assert shop.leftovers() == []


def test_source_and_stream_table_are_renamed_where_event_triggers_watch(lab: Lab):
    shop = watched_shop(lab)
    shop.run("ALTER TABLE t RENAME TO sales", "ALTER TABLE counts RENAME TO totals")
    retold(shop, totals="SELECT k, count(*) AS n, max(v) AS v FROM sales GROUP BY k")

    shop.window("INSERT INTO sales VALUES (3, 2, 'c')")


def test_query_of_the_user_keeps_its_look(shop: Lab):
    query = "SELECT t.k, -- the key\n       count(*) AS n FROM t GROUP BY t.k"
    shop.create("looks", query)
    shop.run("ALTER TABLE t RENAME TO sales", "INSERT INTO sales VALUES (3, 2, 'c')")

    shop.trickle.refresh_stream_table("looks")

    found = shop.trickle.get_stream_table("looks").original_query
    assert found == query.replace("FROM t", "FROM public.sales t")


def test_cte_with_the_name_of_a_source_is_not_taken_for_it(shop: Lab):
    shop.create("cte", "WITH t AS (SELECT id FROM t WHERE k = 1) SELECT t.id FROM t")
    shop.run("ALTER TABLE t RENAME TO sales", "INSERT INTO sales VALUES (3, 1, 'c')")

    shop.trickle.refresh_stream_table("cte")

    assert shop.rows("TABLE cte") == [(1,), (2,), (3,)]
    assert shop.trickle.verify_stream_table("cte").ok


def test_source_is_renamed_below_a_view(shop: Lab):
    shop.run("CREATE VIEW seen AS SELECT id, k FROM t")
    shop.create("over", "SELECT k, count(*) AS n FROM seen GROUP BY k")
    shop.run("ALTER TABLE t RENAME TO sales", "ALTER VIEW seen RENAME TO shown")
    retold(shop, over="SELECT k, count(*) AS n FROM shown GROUP BY k")

    shop.window("INSERT INTO sales VALUES (3, 2, 'c')", action="REINITIALIZE")
    shop.window("INSERT INTO sales VALUES (4, 2, 'c')")


def test_schema_of_a_function_and_a_type_is_renamed(shop: Lab):
    shop.run(
        "CREATE TYPE other.mood AS ENUM ('sad', 'glad')",
        "CREATE FUNCTION other.twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1'",
    )
    query = "SELECT id, {0}.twice(k) AS k, 'sad'::{0}.mood AS mood FROM t"
    shop.create("moods", query.format("other"))
    shop.run("ALTER SCHEMA other RENAME TO another", "INSERT INTO t VALUES (3, 2, 'c')")
    retold(shop, moods=query.format("another"))

    shop.trickle.refresh_stream_table("moods")

    shop.check("moods")
    shop.window("INSERT INTO t VALUES (4, 2, 'c')")


def test_source_that_the_log_captures_is_renamed(counted: Lab):
    counted.run("INSERT INTO t SELECT max(id) + 1, 1 FROM t", "ALTER TABLE t RENAME TO sales")
    retold(
        counted,
        **{name: one.replace("FROM t", "FROM sales") for name, one in counted.queries.items()},
    )

    counted.window("INSERT INTO sales SELECT max(id) + 1, 2 FROM sales")


def test_partitioned_source_and_its_partition_are_renamed(lab: Lab):
    lab.run(
        "CREATE TABLE sales (id int, day int) PARTITION BY RANGE (day)",
        "CREATE TABLE early PARTITION OF sales FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE late PARTITION OF sales FOR VALUES FROM (10) TO (20)",
        "INSERT INTO sales VALUES (1, 1), (2, 12)",
    )
    lab.create("days", "SELECT day, count(*) AS n FROM sales GROUP BY day")
    lab.run("ALTER TABLE early RENAME TO first", "ALTER TABLE sales RENAME TO visits")
    retold(lab, days="SELECT day, count(*) AS n FROM visits GROUP BY day")

    lab.window("INSERT INTO first VALUES (3, 1)", "INSERT INTO visits VALUES (4, 12)")


def test_diamond_whose_source_and_member_are_renamed_goes_on_together(shop: Lab):
    shop.create("low", "SELECT k, min(id) AS id FROM t GROUP BY k")
    shop.create("span", "SELECT c.k, c.n, l.id FROM counts AS c JOIN low AS l USING (k)")
    shop.run("ALTER TABLE t RENAME TO sales", "ALTER TABLE low RENAME TO least")
    shop.run("INSERT INTO sales VALUES (3, 2, 'c'), (0, 1, 'd')")

    shop.trickle.refresh_stream_table("span")

    retold(shop, span="SELECT c.k, c.n, l.id FROM counts AS c JOIN least AS l USING (k)")
    shop.check("span")
    assert shop.value("SELECT sum(n) FROM span") == 4
    assert shop.trickle.verify_stream_table("span").ok


def test_source_is_swapped_by_renaming(shop: Lab, new_process: Callable[[], Trickle]):
    shop.run(
        "CREATE TABLE fresh (id int PRIMARY KEY, k int, v text)",
        "INSERT INTO fresh VALUES (9, 9, 'z')",
        "BEGIN; ALTER TABLE t RENAME TO old; ALTER TABLE fresh RENAME TO t; COMMIT",
        "INSERT INTO old VALUES (3, 2, 'c')",
    )

    assert code_of(shop.trickle, "counts") == "ST306"
    assert code_of(new_process(), "counts") == "ST306"
    shop.run("BEGIN; ALTER TABLE t RENAME TO fresh; ALTER TABLE old RENAME TO t; COMMIT")
    shop.window()


def test_swapped_source_is_accepted_by_repair(shop: Lab):
    shop.run(
        "CREATE TABLE fresh (id int PRIMARY KEY, k int, v text)",
        "INSERT INTO fresh VALUES (9, 9, 'z')",
        "BEGIN; ALTER TABLE t RENAME TO old; ALTER TABLE fresh RENAME TO t; COMMIT",
    )
    assert code_of(shop.trickle, "counts") == "ST306"

    shop.trickle.repair_stream_table("counts")

    shop.window(action="REINITIALIZE")
    shop.window("INSERT INTO t VALUES (3, 2, 'c')")


def test_swapped_source_whose_predecessor_is_dropped_starts_anew(shop: Lab):
    shop.run(
        "CREATE TABLE fresh (id int PRIMARY KEY, k int, v text)",
        "INSERT INTO fresh VALUES (9, 9, 'z')",
        "BEGIN; ALTER TABLE t RENAME TO old; ALTER TABLE fresh RENAME TO t; COMMIT",
        "DROP TABLE old",
    )

    shop.window(action="REINITIALIZE")
    shop.window("INSERT INTO t VALUES (3, 2, 'c')")


def test_source_is_swapped_while_it_is_read(shop: Lab):
    shop.run(
        "CREATE TABLE fresh (id int PRIMARY KEY, k int, v text)",
        "INSERT INTO fresh VALUES (9, 9, 'z')",
        "INSERT INTO t VALUES (3, 1, 'c')",
    )
    shop.before_next_stage(
        lambda: shop.run(
            "BEGIN; ALTER TABLE t RENAME TO old; ALTER TABLE fresh RENAME TO t; COMMIT"
        )
    )

    assert code_of(shop.trickle, "counts") == "ST306"
    shop.run("BEGIN; ALTER TABLE t RENAME TO fresh; ALTER TABLE old RENAME TO t; COMMIT")
    shop.window()


def test_source_is_renamed_while_it_is_read(shop: Lab):
    shop.run("INSERT INTO t VALUES (3, 1, 'c')")
    shop.before_next_stage(lambda: shop.run("ALTER TABLE t RENAME TO sales"))
    retold(shop, counts="SELECT k, count(*) AS n, max(v) AS v FROM sales GROUP BY k")

    shop.refresh("counts")


STREAM_TABLE = {
    "renamed": (["ALTER TABLE counts RENAME TO totals"], "totals"),
    "moved": (["ALTER TABLE counts SET SCHEMA other"], "other.counts"),
    "both": (
        ["ALTER TABLE counts SET SCHEMA other", 'ALTER TABLE other.counts RENAME TO "T"'],
        'other."T"',
    ),
}


@pytest.mark.parametrize(("statements", "now"), STREAM_TABLE.values(), ids=STREAM_TABLE.keys())
@pytest.mark.parametrize("process", ["same", "new"])
def test_stream_table_is_renamed_by_hand(
    shop: Lab,
    new_process: Callable[[], Trickle],
    statements: list[str],
    now: str,
    process: str,
):
    shop.create("best", "SELECT max(n) AS n FROM counts")
    shop.run("INSERT INTO t VALUES (3, 2, 'c')", *statements, "INSERT INTO t VALUES (4, 2, 'd')")
    retold(shop, **{now: COUNTS, "best": f"SELECT max(n) AS n FROM {now}"})
    trickle = shop.trickle if process == "same" else new_process()

    assert trickle.refresh_stream_table(now).action.value == "DIFFERENTIAL"
    trickle.refresh_stream_table("best")

    for one in (now, "best"):
        shop.check(one)
        assert trickle.verify_stream_table(one).ok
    with pytest.raises(TrickleError, match="renamed to") as caught:
        trickle.drop_stream_table("counts")
    assert caught.value.code == "ST201"
    assert trickle.drop_stream_table(now, cascade=True) == [
        "public.best",
        str(now if "." in now else f"public.{now}"),
    ]
    assert shop.leftovers() == []


def test_daemon_takes_note_although_nothing_changed(shop: Lab):
    shop.create("best", "SELECT max(n) AS n FROM counts")
    before = shop.trickle.daemon.schedule_token()
    shop.run("ALTER TABLE t RENAME TO sales", "ALTER TABLE counts RENAME TO totals")

    assert shop.trickle.daemon.schedule_token() != before

    assert shop.rows("SELECT name FROM pgtrickle.pgt_status()") == [
        ("public.best",),
        ("public.totals",),
    ]
    queries = "SELECT original_query FROM pgtrickle.pgt_stream_tables"
    assert shop.rows(queries) == [
        ("SELECT k, count(*) AS n, max(v) AS v FROM public.sales t GROUP BY k",),
        ("SELECT max(n) AS n FROM public.totals counts",),
    ]
    sources = "SELECT source_name FROM pgtrickle.{}"
    assert shop.rows(sources.format("pgt_dependencies")) == [("sales",), ("totals",)]
    assert shop.rows(sources.format("pgt_change_tracking")) == [("sales",), ("totals",)]


def test_two_stream_tables_change_their_names(shop: Lab):
    shop.create("keys", "SELECT k FROM t")
    shop.run(
        "BEGIN; ALTER TABLE counts RENAME TO x; ALTER TABLE keys RENAME TO counts;"
        " ALTER TABLE x RENAME TO keys; COMMIT"
    )
    retold(shop, counts="SELECT k FROM t", keys=COUNTS)

    shop.window("INSERT INTO t VALUES (3, 2, 'c')")
    assert {str(one.name) for one in shop.trickle.list_stream_tables()} == {
        "public.counts",
        "public.keys",
    }


def test_reader_of_two_that_changed_their_names_is_told(shop: Lab):
    shop.create("more", COUNTS)
    shop.create("best", "SELECT max(n) AS n FROM counts")
    shop.run(
        "BEGIN; ALTER TABLE counts RENAME TO x; ALTER TABLE more RENAME TO counts;"
        " ALTER TABLE x RENAME TO more; COMMIT",
        "INSERT INTO t VALUES (3, 2, 'c')",
    )

    assert code_of(shop.trickle, "best") == "ST306"


def test_stream_table_is_renamed_while_it_is_refreshed(shop: Lab):
    shop.run("INSERT INTO t VALUES (3, 1, 'c')")
    shop.before_next_stage(lambda: shop.run("ALTER TABLE counts RENAME TO totals"))

    assert shop.trickle.refresh_stream_table("counts").action.value == "DIFFERENTIAL"

    retold(shop, totals=COUNTS)
    shop.window("INSERT INTO t VALUES (4, 2, 'c')")


def test_other_table_under_the_name_of_a_renamed_one_is_not_written(shop: Lab):
    shop.run("INSERT INTO t VALUES (3, 1, 'c')")
    shop.before_next_stage(
        lambda: shop.run(
            "BEGIN; ALTER TABLE counts RENAME TO totals;"
            " CREATE TABLE counts AS SELECT 7 AS k, 7::bigint AS n, '' AS v; COMMIT"
        )
    )

    shop.trickle.refresh_stream_table("counts")

    retold(shop, totals=COUNTS)
    shop.window("INSERT INTO t VALUES (4, 2, 'c')")
    assert shop.rows("TABLE counts") == [(7, 7, "")]
    with pytest.raises(TrickleError, match="renamed to"):
        shop.trickle.drop_stream_table("counts")


def test_table_that_took_the_name_of_a_dropped_one_is_spared(shop: Lab):
    shop.create("keys", "SELECT k FROM t")
    shop.run("DROP TABLE counts", "CREATE TABLE counts (mine int)")

    shop.trickle.drop_stream_table("counts")

    assert shop.rows("TABLE counts") == []
    assert [str(one.name) for one in shop.trickle.list_stream_tables()] == ["public.keys"]


def test_stream_table_that_was_not_loaded_yet_is_renamed(shop: Lab):
    shop.trickle.create_stream_table("later", "SELECT k FROM t", initialize=False)
    shop.run("ALTER TABLE later RENAME TO sooner", "ALTER TABLE t RENAME TO sales")
    retold(shop, sooner="SELECT k FROM sales")

    shop.refresh("sooner", "FULL")
    shop.window("INSERT INTO sales VALUES (4, 2, 'c')")


NAMES = {"name": ("totals", "public.totals"), "schema": ("other.counts", "other.counts")}


@pytest.mark.parametrize(("given", "now"), NAMES.values(), ids=NAMES.keys())
def test_rename_takes_all_with_it(shop: Lab, given: str, now: str):
    trickle = shop.trickle
    shop.create("best", "SELECT max(n) AS n FROM counts")
    shop.create("keys", "SELECT k FROM t")
    shop.run("CREATE INDEX mine ON counts (n)", "GRANT SELECT ON counts TO PUBLIC")
    trickle.scheduler.create_refresh_group("both", ["counts", "keys"])
    trickle.scheduler.gate_source("counts")
    trickle.scheduler.pause_scheduler("counts")
    holds = {one.reason for one in trickle.scheduler.list_holds()}

    report = trickle.rename_stream_table("counts", given)

    assert (report.name, report.former_name) == (now, "public.counts")
    assert report.followed == ("public.best",)
    retold(
        shop, **{now: COUNTS, "best": f"SELECT max(n) AS n FROM {now}", "keys": "SELECT k FROM t"}
    )
    shop.window("INSERT INTO t VALUES (5, 2, 'c'), (6, 2, 'd')")
    assert shop.value("SELECT members FROM pgtrickle.refresh_groups()") == sorted(
        [now, "public.keys"]
    )
    assert {one.reason.replace(now, "counts") for one in trickle.scheduler.list_holds()} == {
        one.replace("public.counts", "counts") for one in holds
    }
    assert shop.value(f"SELECT has_table_privilege('public', '{now}', 'SELECT')")
    assert shop.value("SELECT count(*) FROM pg_indexes WHERE indexname = 'mine'") == 1
    trickle.scheduler.drop_refresh_group("both")
    trickle.scheduler.ungate_source(now)


REFUSED = {
    "taken": ("t", "ST202"),
    "its schema is ours": ("pgtrickle.x", "ST208"),
    "no such schema": ("nowhere.x", "ST208"),
    "no name": ("a.b.c", "ST208"),
}


@pytest.mark.parametrize(("given", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_rename_that_cannot_be_done_changes_nothing(shop: Lab, given: str, code: str):
    with pytest.raises(TrickleError) as caught:
        shop.trickle.rename_stream_table("counts", given)

    assert caught.value.code == code
    assert caught.value.hint
    shop.window("INSERT INTO t VALUES (3, 2, 'c')")


def test_column_that_is_renamed_is_refused_until_another_query_is_given(shop: Lab):
    shop.run("ALTER TABLE t RENAME COLUMN v TO w", "INSERT INTO t VALUES (3, 2, 'c')")
    assert code_of(shop.trickle, "counts") == "ST302"

    query = COUNTS.replace("max(v)", "max(w)")
    shop.trickle.alter_stream_table("counts", query=query)

    retold(shop, counts=query)
    shop.window("INSERT INTO t VALUES (4, 2, 'z')")


def test_nothing_is_lost_while_others_write_and_rename(shop: Lab):
    """Writers go on by whatever name the table has, and refreshes too."""
    stop = threading.Event()
    written = []

    def write(start: int) -> None:
        with psycopg.connect(shop.trickle.dsn, autocommit=True) as session:
            number = start
            while not stop.is_set():
                for name in ("t", "sales"):
                    try:
                        session.execute(
                            f"INSERT INTO {name} VALUES (%s, %s, 'x')".encode(),
                            [number, number % 7],
                        )
                    except psycopg.errors.UndefinedTable:
                        continue
                    written.append(number)
                    number += 1
                    break

    writers = [threading.Thread(target=write, args=[start]) for start in (1000, 1_000_000)]
    for one in writers:
        one.start()
    try:
        for turn in range(6):
            here, there = ("t", "sales") if turn % 2 == 0 else ("sales", "t")
            shop.run(f"ALTER TABLE {here} RENAME TO {there}")
            report = shop.trickle.refresh_stream_table("counts")
            assert report.action.value in {"DIFFERENTIAL", "NO_DATA"}
            shop.trickle.rename_stream_table("counts", "totals")
            shop.trickle.refresh_stream_table("totals")
            shop.run("ALTER TABLE totals RENAME TO counts")
    finally:
        stop.set()
        for one in writers:
            one.join()
    shop.trickle.refresh_stream_table("counts")
    assert shop.trickle.verify_stream_table("counts").ok
    assert shop.value("SELECT sum(n) FROM counts") == 2 + len(written)
