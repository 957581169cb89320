"""Stream tables that several paths lead to (scenarios.md: P40): see docs/adr/0017."""

from __future__ import annotations

import threading
from itertools import count

import psycopg
import pytest

from pgtrickle.catalog.scheduling.refresh_groups import create_refresh_group, drop_refresh_group
from pgtrickle.errors import CircularDependencyError, DataError, SettingError
from tests.labs.circles import with_settings
from tests.labs.lab import Lab
from tests.labs.wal_lab import modes

# A transfer between two accounts changes no sum, so any mixture of versions is seen at once.
TRANSFER = (
    "BEGIN; UPDATE account SET amount = amount - 7 WHERE id = {0};"
    " UPDATE account SET amount = amount + 7 WHERE id = {1}; COMMIT"
)


@pytest.fixture
def bank(lab: Lab) -> Lab:
    open_accounts(lab)
    return lab


def open_accounts(lab: Lab) -> None:
    lab.run("CREATE TABLE account (id int PRIMARY KEY, kind text, amount int NOT NULL)")
    lab.run(
        "INSERT INTO account SELECT i, CASE i % 2 WHEN 0 THEN 'even' ELSE 'odd' END, 100"
        " FROM generate_series(1, 20) AS i"
    )
    lab.create("even", "SELECT sum(amount) AS total FROM account WHERE kind = 'even'")
    lab.create("odd", "SELECT sum(amount) AS total FROM account WHERE kind = 'odd'")
    lab.create("whole", "SELECT e.total + o.total AS total FROM even AS e CROSS JOIN odd AS o")


def frontiers(lab: Lab) -> dict[str, str]:
    return dict(lab.rows("SELECT pgt_name, frontier #>> '{pg,snapshot}' FROM "
                         "pgtrickle.pgt_stream_tables"))  # fmt: skip


def test_p40_child_takes_its_parents_along(bank: Lab):
    bank.run(TRANSFER.format(1, 2))

    report = bank.trickle.refresh_stream_table("whole")

    assert report.action.value == "NO_DATA" or report.rows_inserted == report.rows_deleted == 0
    assert bank.rows("SELECT total FROM whole") == [(2000,)]
    assert bank.rows("SELECT total FROM even") == [(1007,)]
    assert bank.rows("SELECT total FROM odd") == [(993,)]
    assert len(set(frontiers(bank).values())) == 1


def test_p40_parent_that_went_ahead_mixes_nothing(bank: Lab):
    bank.run(TRANSFER.format(1, 2))
    bank.refresh("odd")
    bank.run(TRANSFER.format(1, 2), "INSERT INTO account VALUES (30, 'even', 5)")

    bank.refresh("whole")

    assert bank.rows("SELECT total FROM whole") == [(2005,)]


def test_p40_changes_reach_the_child_in_the_same_commit(bank: Lab):
    bank.run("INSERT INTO account VALUES (30, 'even', 5), (31, 'odd', 6)")

    report = bank.trickle.refresh_stream_table("whole")

    assert (report.rows_inserted, report.rows_deleted) == (1, 1)
    assert bank.rows("SELECT total FROM whole") == [(2011,)]
    assert len(set(frontiers(bank).values())) == 1
    history = bank.rows(
        "SELECT DISTINCT ON (pgt_id) s.pgt_name, h.action, h.status"
        "  FROM pgtrickle.pgt_refresh_history AS h"
        "  JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id) ORDER BY pgt_id, refresh_id DESC"
    )
    assert [row[0] for row in history] == ["even", "odd", "whole"]


def test_p40_what_the_group_wrote_is_in_no_later_window(bank: Lab):
    bank.run("INSERT INTO account VALUES (30, 'even', 5)")
    bank.refresh("whole")

    for name in ("even", "odd", "whole"):
        bank.refresh(name, action="NO_DATA")
    assert bank.trickle.daemon.find_idle(bank.trickle.list_stream_tables()) == {
        table.id for table in bank.trickle.list_stream_tables()
    }


def test_p40_transaction_open_at_the_snapshot_comes_with_the_next_window(bank: Lab):
    with psycopg.connect(bank.trickle.dsn) as writer:
        writer.execute("INSERT INTO account VALUES (30, 'even', 5)")
        bank.run("INSERT INTO account VALUES (31, 'odd', 6)")
        bank.refresh("whole")
        assert bank.rows("SELECT total FROM whole") == [(2006,)]
        writer.commit()

    bank.refresh("whole")

    assert bank.rows("SELECT total FROM whole") == [(2011,)]


def test_p40_writer_between_the_snapshot_and_the_commit(bank: Lab):
    bank.run("INSERT INTO account VALUES (30, 'even', 5)")
    bank.before_next_stage(lambda: bank.run("INSERT INTO account VALUES (31, 'odd', 1)"))

    bank.trickle.refresh_stream_table("whole")
    assert bank.rows("SELECT total FROM whole") == [(2005,)]
    assert bank.rows("SELECT total FROM odd") == [(1000,)]

    bank.trickle.refresh_stream_table("whole")
    assert bank.rows("SELECT total FROM whole") == [(2006,)]


def test_p40_paths_of_different_lengths_and_a_direct_one(lab: Lab):
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int, v int)")
    lab.run("INSERT INTO t SELECT i, i % 5, i FROM generate_series(1, 50) AS i")
    lab.create("sums", "SELECT k, sum(v) AS total FROM t GROUP BY k")
    lab.create("best", "SELECT max(total) AS best FROM sums")
    lab.create(
        "share",
        "SELECT t.id, t.v, s.total, b.best FROM t JOIN sums AS s USING (k) CROSS JOIN best AS b",
    )
    lab.run("UPDATE t SET v = v + 100 WHERE id IN (7, 8)", "DELETE FROM t WHERE k = 0")
    lab.before_next_stage(lambda: lab.run("UPDATE t SET v = 0 WHERE id = 9"))

    lab.trickle.refresh_stream_table("share")

    # Not a trace of the last update, on any path.
    [(v, total, best)] = lab.rows("SELECT v, total, best FROM share WHERE id = 9")
    assert (v, total) == lab.rows(
        "SELECT 9, sum(CASE id WHEN 9 THEN 9 ELSE v END)::bigint FROM t WHERE k = 4"
    )[0]
    assert best == lab.value("SELECT best FROM best")
    lab.trickle.refresh_stream_table("share")
    for name in ("sums", "best", "share"):
        lab.check(name)


@pytest.mark.parametrize(
    "top",
    [
        "SELECT l.k, l.v AS low, h.v AS high FROM low AS l LEFT JOIN high AS h USING (k)",
        "SELECT k, l.v AS low, h.v AS high FROM low AS l FULL JOIN high AS h USING (k)",
        "SELECT count(*) AS n, sum(h.v - l.v) AS spread FROM low AS l JOIN high AS h USING (k)",
        "SELECT k FROM low EXCEPT SELECT k FROM high",
        "SELECT k, v FROM low UNION ALL SELECT k, v FROM high",
        "SELECT k, v, rank() OVER (ORDER BY v) AS place FROM (TABLE low UNION ALL TABLE high) AS u",
    ],
)
def test_p40_operators_where_paths_meet(lab: Lab, top: str):
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int, v int)")
    lab.run("INSERT INTO t SELECT i, i % 7, i FROM generate_series(1, 40) AS i")
    lab.create("low", "SELECT k, min(v) AS v FROM t WHERE v < 30 GROUP BY k")
    lab.create("high", "SELECT k, max(v) AS v FROM t WHERE v > 10 GROUP BY k")
    lab.create("top", top, mode="AUTO")
    for statement in (
        "UPDATE t SET v = v + 25 WHERE k = 3",
        "DELETE FROM t WHERE k IN (0, 1)",
        "INSERT INTO t SELECT i, i % 9, i % 50 FROM generate_series(100, 130) AS i",
        "TRUNCATE t",
        "INSERT INTO t VALUES (1, 1, 20)",
    ):
        lab.run(statement)
        lab.trickle.refresh_stream_table("top")
        for name in ("low", "high", "top"):
            lab.check(name)


def test_p40_failed_branch_takes_the_group_back_and_nothing_else(lab: Lab):
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.create("good", "SELECT count(*) AS n FROM t")
    lab.create("bad", "SELECT sum(10 / v) AS s FROM t")
    lab.create("joint", "SELECT n, s FROM good CROSS JOIN bad")
    lab.create("beside", "SELECT max(v) AS v FROM t")
    before = frontiers(lab)
    lab.run("INSERT INTO t VALUES (3, 0)")

    with pytest.raises(DataError):
        lab.trickle.refresh_stream_table("joint")
    lab.refresh("beside")

    assert lab.rows("SELECT n, s FROM joint") == [(2, 15)]
    assert lab.rows("SELECT n FROM good") == [(2,)]
    assert {name: frontiers(lab)[name] for name in ("good", "bad", "joint")} == {
        name: before[name] for name in ("good", "bad", "joint")
    }
    assert lab.value("SELECT count(*) FROM pgtrickle.pgt_leases") == 0
    lab.run("UPDATE t SET v = 5 WHERE id = 3")
    lab.trickle.refresh_stream_table("bad", full=True)
    lab.refresh("joint")


def test_diamond_consistency_none_leaves_each_to_itself(bank: Lab):
    bank.run("UPDATE pgtrickle.pgt_stream_tables SET diamond_consistency = 'none'")
    bank.run("INSERT INTO account VALUES (30, 'even', 5)")

    bank.refresh("whole", action="NO_DATA")


def test_dependencies_through_views_make_diamonds_too(bank: Lab):
    bank.run("CREATE VIEW seen AS SELECT total FROM even")
    bank.create("through", "SELECT s.total - o.total AS gap FROM seen AS s CROSS JOIN odd AS o")
    bank.run(TRANSFER.format(1, 2))

    bank.refresh("through")

    assert bank.rows("SELECT gap FROM through") == [(14,)]


@pytest.mark.parametrize(
    ("refreshed", "seen"),
    [
        # Parents are refreshed alone too: the child must not show it.
        (["even", "whole", "odd", "whole"], "SELECT total FROM whole"),
        # Members are refreshed together: nobody may see one of them earlier.
        (["whole"], "SELECT e.total + o.total FROM even AS e CROSS JOIN odd AS o"),
    ],
)
def test_p40_no_mixture_is_ever_seen(bank: Lab, refreshed: list[str], seen: str):
    begun, done = threading.Barrier(3, timeout=60), threading.Event()
    sums: set[int] = set()

    def transfer() -> None:
        with psycopg.connect(bank.trickle.dsn, autocommit=True) as connection:
            begun.wait()
            for number in count(1):
                connection.execute(TRANSFER.format(number % 20 + 1, number * 7 % 20 + 1).encode())
                if done.is_set():
                    return

    def look() -> None:
        with psycopg.connect(bank.trickle.dsn, autocommit=True) as connection:
            begun.wait()
            while True:
                [(total,)] = connection.execute(seen.encode()).fetchall()
                sums.add(total)
                if done.is_set():
                    return

    threads = [threading.Thread(target=one) for one in (transfer, look)]
    for thread in threads:
        thread.start()
    begun.wait()
    try:
        for name in refreshed * (12 // len(refreshed)):
            bank.trickle.refresh_stream_table(name)
    finally:
        done.set()
        for thread in threads:
            thread.join()

    assert sums == {2000}
    assert bank.value(
        "SELECT count(*) FROM pgtrickle.pgt_refresh_history AS h"
        "  JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)"
        " WHERE s.pgt_name = 'even' AND h.action = 'DIFFERENTIAL'"
    )


def test_view_that_closes_a_circle_is_refused_with_the_path(bank: Lab):
    bank.run("CREATE VIEW source AS SELECT total FROM even")
    bank.create("first", "SELECT total + 1 AS total FROM source")
    bank.create("second", "SELECT total + 1 AS total FROM first")
    bank.run("CREATE OR REPLACE VIEW source AS SELECT total FROM second")

    with pytest.raises(CircularDependencyError) as raised:
        bank.trickle.refresh_stream_table("first")

    assert str(raised.value).endswith("public.first -> public.second -> public.first")
    bank.run("CREATE OR REPLACE VIEW source AS SELECT total FROM odd")
    bank.refresh("first", action="REINITIALIZE")


def test_verify_takes_the_parents_along(bank: Lab):
    bank.run("INSERT INTO account VALUES (30, 'even', 5), (31, 'odd', 6)")

    verified = bank.trickle.verify_stream_table("whole")

    assert (verified.ok, verified.rows) == (True, 1)
    assert bank.rows("SELECT total FROM whole") == [(2011,)]
    assert len(set(frontiers(bank).values())) == 1


def test_refresh_group_is_refreshed_at_one_moment(lab: Lab):
    lab.run("CREATE TABLE t (a int)", "DELETE FROM pgtrickle.pgt_refresh_groups")
    lab.create("counted", "SELECT count(*) AS n FROM t")
    lab.create("summed", "SELECT sum(a) AS s FROM t")
    version = lab.trickle.daemon.schedule_token()
    relids = [int(lab.value(f"SELECT '{name}'::regclass::oid")) for name in ("counted", "summed")]

    create_refresh_group(lab.connection, "pair", relids, "repeatable_read")

    assert lab.trickle.daemon.schedule_token() != version
    [unit] = lab.trickle.daemon.shape().units
    assert set(unit.members) == {"public.counted", "public.summed"}
    lab.run("INSERT INTO t VALUES (4)")
    lab.before_next_stage(lambda: lab.run("INSERT INTO t VALUES (5)"))
    lab.trickle.daemon.refresh_unit(unit.members)
    assert lab.rows("SELECT n, s FROM counted CROSS JOIN summed") == [(1, 4)]
    assert len(set(frontiers(lab).values())) == 1
    with pytest.raises(SettingError, match="already belongs"):
        create_refresh_group(lab.connection, "other", relids)
    drop_refresh_group(lab.connection, "pair")
    assert len(lab.trickle.daemon.shape().units) == 2


def test_creation_below_a_diamond_waits_for_its_members(bank: Lab):
    """A daemon that refreshes one of them at the moment must not make the creation fail."""
    bank.run(
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
        " SELECT pgt_id, 'somebody', now(), now() + interval '1 second'"
        " FROM pgtrickle.pgt_stream_tables WHERE pgt_name = 'odd'"
    )

    bank.create("gap", "SELECT e.total - o.total AS gap FROM even AS e CROSS JOIN odd AS o")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT w.total, s.n FROM whole AS w, (SELECT count(*) AS n FROM even) AS s",
        "SELECT e.total - s.total AS gap FROM even AS e,"
        " (SELECT sum(amount) AS total FROM account WHERE kind = 'even') AS s",
        "SELECT a.id, a.amount, s.total FROM copy AS a"
        " JOIN (SELECT kind, sum(amount) AS total FROM account GROUP BY kind) AS s"
        " ON s.kind = a.kind",
    ],
)
def test_aggregate_beside_another_member_is_counted_once(bank: Lab, query: str):
    """Its state was merged in the same transaction before the join reads it."""
    bank.create("copy", "SELECT id, kind, amount FROM account")
    bank.create("beside", query)
    for number in range(2, 8, 2):
        bank.run(
            TRANSFER.format(number, number + 1),
            f"INSERT INTO account VALUES ({number + 50}, 'odd', 3)",
        )
        bank.trickle.refresh_stream_table("beside")
        bank.check("beside")

    bank.trickle.refresh_stream_table("beside", full=True)
    bank.check("beside")


def test_source_of_the_log_whose_new_shape_another_process_meets_first(wal: Lab):
    with with_settings(wal, cdc_mode="wal"):
        open_accounts(wal)
        assert modes(wal)["account"] == "WAL"
        wal.run(
            "ALTER TABLE account ALTER COLUMN kind TYPE varchar",
            "INSERT INTO account VALUES (30, 'even', 5)",
        )
        wal.trickle._runtime.remembered.clear()  # as in a process that has just begun

        wal.trickle.refresh_stream_table("whole")

        reasons = wal.rows(
            "SELECT DISTINCT h.reason FROM pgtrickle.pgt_refresh_history AS h"
            " WHERE h.action = 'REINITIALIZE'"
        )
        assert reasons == [("columns of public.account changed",)]
        for name in ("even", "odd", "whole"):
            wal.check(name)
        wal.run("INSERT INTO account VALUES (31, 'odd', 6)")
        wal.trickle.refresh_stream_table("whole")
        for name in ("even", "odd", "whole"):
            wal.check(name)


def test_parents_whose_frontiers_are_of_an_undone_history_start_anew_together(bank: Lab):
    bank.run(TRANSFER.format(1, 2))
    bank.run(
        "UPDATE pgtrickle.pgt_stream_tables"
        " SET frontier = jsonb_set(frontier, '{pg,snapshot}', '\"999999999:999999999:\"')"
    )

    report = bank.trickle.refresh_stream_table("whole")

    assert (report.action.value, report.reason) == (
        "REINITIALIZE",
        "the server's transaction ids moved back",
    )
    for name in ("even", "odd", "whole"):
        bank.check(name)
