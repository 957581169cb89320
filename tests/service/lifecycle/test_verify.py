"""Verifying members of groups: the comparison outlasts the group's transaction and its leases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import psycopg
import pytest

from pgtrickle.errors import DataError, TrickleError
from pgtrickle.model.report import VerifyReport
from pgtrickle.service.lifecycle import verify
from tests.labs.circles import EDGES, FEW, check, close, with_settings
from tests.labs.lab import Lab

Interrupt = Callable[..., None]
Compared = list[verify._Comparison]

NOTHING_LEFT = (
    "SELECT relname::text FROM pg_class WHERE relpersistence = 't' UNION ALL"
    " SELECT pgt_id::text FROM pgtrickle.pgt_leases UNION ALL"
    " SELECT query FROM pg_stat_activity WHERE datname = current_database()"
    " AND state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()"
)


@pytest.fixture
def shop(lab: Lab) -> Lab:
    """Join rows with their sums and the maximum of these: paths of three lengths."""
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int, v int)")
    lab.run("INSERT INTO t SELECT i, i % 5, i FROM generate_series(1, 50) AS i")
    lab.create("sums", "SELECT k, sum(v) AS total FROM t GROUP BY k")
    lab.create("best", "SELECT max(total) AS best FROM sums")
    lab.create(
        "share",
        "SELECT t.id, t.v, s.total, b.best FROM t JOIN sums AS s USING (k) CROSS JOIN best AS b",
    )
    return lab


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """Let something happen before the next comparison, or another step of a verify."""

    def interrupt(act: Callable[[], object], step: str = "_compare", target: Any = verify) -> None:
        original, left = getattr(target, step), [act]

        def first_act(*arguments: Any, **named: Any) -> Any:
            if left:
                left.pop()()
            return original(*arguments, **named)

        monkeypatch.setattr(target, step, first_act)

    return interrupt


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    """Collect the comparisons that are made."""
    compare, found = verify._compare, []

    def collect(comparison: verify._Comparison) -> VerifyReport:
        found.append(comparison)
        return compare(comparison)

    monkeypatch.setattr(verify, "_compare", collect)
    return found


def tamper(lab: Lab, name: str, values: str) -> None:
    """Write into a stream table past its guard, and hide that from those who read it."""
    buffer = lab.value(f"SELECT 'changes_' || '{name}'::regclass::oid")
    lab.run(
        "BEGIN; SET LOCAL session_replication_role = replica;"
        f" INSERT INTO {name} VALUES {values}; COMMIT"
    )
    if lab.value(f"SELECT to_regclass('pgtrickle_changes.{buffer}')"):
        lab.run(f"DELETE FROM pgtrickle_changes.{buffer}")


def test_group_is_refreshed_while_a_member_is_compared(shop: Lab, before: Interrupt):
    def write_and_refresh() -> None:
        shop.run("UPDATE t SET v = v + 1 WHERE k = 1", "DELETE FROM t WHERE id = 9")
        reports = [shop.trickle.refresh_stream_table(one) for one in ("sums", "share")]
        assert [report.action.value for report in reports] == ["DIFFERENTIAL"] * 2

    shop.run("UPDATE t SET v = v + 100 WHERE id IN (7, 8)", "DELETE FROM t WHERE k = 0")
    before(write_and_refresh)

    verified = shop.trickle.verify_stream_table("share")

    assert (verified.ok, verified.rows, verified.stream_table) == (True, 40, "public.share")
    assert shop.rows(NOTHING_LEFT) == []
    for name in ("sums", "best", "share"):
        shop.refresh(name, action="NO_DATA")


def test_member_is_right_under_writers(shop: Lab):
    begun, done = threading.Event(), threading.Event()

    def write() -> None:
        with psycopg.connect(shop.trickle.dsn, autocommit=True) as connection:
            for number in count(1):
                connection.execute(
                    "UPDATE t SET v = v + 1, k = (k + 1) %% 5 WHERE id = %s", [number % 50 + 1]
                )
                begun.set()
                if done.is_set():
                    return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert begun.wait(30)
        found = [shop.trickle.verify_stream_table("share") for _ in range(8)]
    finally:
        done.set()
        thread.join()

    assert [one for one in found if not one.ok] == []
    assert shop.value(
        "SELECT count(*) FROM pgtrickle.pgt_refresh_history AS h"
        "  JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)"
        " WHERE s.pgt_name = 'sums' AND h.action = 'DIFFERENTIAL'"
    )


@pytest.mark.parametrize("write", ["SELECT 1", "UPDATE t SET v = v + 100 WHERE id IN (7, 8)"])
def test_row_that_was_slipped_in_is_found(shop: Lab, write: str):
    tamper(shop, "share", "(99, 1, 2, 3)")
    shop.run(write)

    verified = shop.trickle.verify_stream_table("share")

    assert (verified.ok, verified.missing, verified.extra) == (False, 0, 1)
    assert verified.extra_sample == (("99", "1", "2", "3"),)
    assert shop.rows(NOTHING_LEFT) == []


@pytest.mark.parametrize("write", ["SELECT 1", "UPDATE t SET v = v + 100 WHERE id IN (7, 8)"])
def test_row_that_was_slipped_into_what_a_member_reads_is_found(shop: Lab, write: str):
    shop.create("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")
    shop.create("pairs", "SELECT k, total, n FROM sums JOIN counts USING (k)")
    tamper(shop, "sums", "(1, -1)")
    shop.run(write)

    verified = shop.trickle.verify_stream_table("pairs")

    assert (verified.ok, verified.missing, verified.extra) == (False, 1, 0)
    assert verified.missing_sample == (("1", "-1", "10"),)


def test_members_behind_views_are_compared_without_the_leases(shop: Lab, before: Interrupt):
    shop.run(
        'CREATE VIEW seen ("K", "sum of v") AS SELECT s.k, s.total FROM sums AS s',
        'CREATE VIEW "both" AS SELECT "K", "sum of v", best FROM seen, best',
        "CREATE VIEW beside AS SELECT id FROM t",
    )
    shop.create(
        "through",
        'SELECT b."K", b."sum of v", b.best, sums.total, (SELECT count(*) FROM beside) AS n'
        ' FROM "both" AS b JOIN sums ON sums.k = b."K"',
        mode="AUTO",
    )
    shop.run("UPDATE t SET v = v + 100 WHERE id IN (7, 8)")
    before(lambda: shop.trickle.refresh_stream_table("best"))

    assert shop.trickle.verify_stream_table("through").ok
    assert shop.rows(NOTHING_LEFT) == []


@pytest.mark.parametrize(
    ("query", "apart"),
    [
        # Whole rows, whose type is the table's.
        ("SELECT s, b.best FROM sums AS s, best AS b", True),
        ("SELECT to_jsonb(s) AS s, b.best FROM sums AS s, best AS b", True),
        # Another table of the same name.
        ("SELECT sums.total, best, o.total AS o FROM sums, best, elsewhere.sums AS o", True),
        # At the time that the refresh recorded.
        ("SELECT total, best FROM sums, best WHERE now() > '2020-01-01'", True),
        # Only the transaction of the group can tell.
        ("SELECT twice(s) AS twice, b.best FROM sums AS s, best AS b", False),
    ],
)
def test_members_are_named_in_unusual_ways(
    shop: Lab,
    compared: Compared,
    query: str,
    apart: bool,  # noqa: FBT001 - a parameter of the test
):
    shop.run(
        "CREATE SCHEMA elsewhere",
        "CREATE TABLE elsewhere.sums (total int)",
        "INSERT INTO elsewhere.sums VALUES (1), (2)",
        "CREATE FUNCTION twice(sums) RETURNS bigint LANGUAGE sql IMMUTABLE"
        " AS 'SELECT 2 * $1.total'",
    )
    shop.create("unusual", query, mode="AUTO")
    shop.run("UPDATE t SET v = v + 100 WHERE id IN (7, 8, 9)")

    assert shop.trickle.verify_stream_table("unusual").ok
    [comparison] = compared
    copied = {one.member.stream_table.name.name for one in comparison.copies}
    assert copied == ({"sums", "best"} if apart else set())
    assert shop.rows(NOTHING_LEFT) == []


def test_copies_have_the_indexes_of_the_members(shop: Lab, compared: Compared):
    shop.run(
        'CREATE UNIQUE INDEX " ON public.sums USING btree (k) " ON sums (k)',
        "CREATE INDEX ON sums USING hash (total) WHERE total > 0",
        "UPDATE t SET v = v + 100 WHERE id IN (7, 8)",
    )

    assert shop.trickle.verify_stream_table("share").ok

    [comparison] = compared
    written = [one.partition(" USING ")[::2] for one in comparison.indexes]
    copy = next(
        one.table for one in comparison.copies if str(one.member.stream_table.name).endswith("sums")
    )
    assert (f"CREATE UNIQUE INDEX ON {copy.sql}", "btree (k)") in written
    assert (f"CREATE INDEX ON {copy.sql}", "hash (total) WHERE (total > 0)") in written


def test_circle_is_refreshed_while_a_member_is_compared(lab: Lab, before: Interrupt):
    lab.run(EDGES, FEW)
    close(lab, 2)

    def write_and_refresh() -> None:
        lab.run("DELETE FROM edge WHERE src = 4", "INSERT INTO edge VALUES (9, 1)")
        lab.trickle.refresh_stream_table("walk_1")
        check(lab, 2)

    lab.run("INSERT INTO edge VALUES (7, 8), (8, 5)")
    before(write_and_refresh)

    assert lab.trickle.verify_stream_table("walk_0").ok
    assert lab.rows(NOTHING_LEFT) == []


def test_circle_that_reads_a_member_of_its_group_is_compared_with_it(lab: Lab, before: Interrupt):
    lab.run(EDGES, FEW)
    lab.create("ends", "SELECT DISTINCT dst FROM edge")
    lab.trickle.create_stream_table("walk", "SELECT DISTINCT src, dst FROM edge")
    with with_settings(lab, allow_circular=True):
        lab.trickle.alter_stream_table(
            "walk",
            query="SELECT src, dst FROM edge UNION SELECT w.src, e.dst FROM walk AS w"
            " JOIN edge AS e ON e.src = w.dst JOIN ends ON ends.dst = e.dst",
        )
    before(lambda: lab.trickle.refresh_stream_table("walk"))
    lab.run("INSERT INTO edge VALUES (7, 8), (8, 5)")

    verified = lab.trickle.verify_stream_table("walk")

    assert verified.ok, verified
    assert lab.value("SELECT count(*) FROM walk WHERE src = 7 AND dst = 5") == 1


def test_members_of_which_the_log_captures_a_source(wal: Lab, before: Interrupt):
    wal.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    with with_settings(wal, cdc_mode="wal"):
        wal.create("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")
        wal.create("ranked", "SELECT t.id, c.n FROM t JOIN counts AS c USING (k)")
        before(lambda: wal.trickle.refresh_stream_table("ranked"))
        wal.run("INSERT INTO t VALUES (3, 1), (4, 2)")

        verified = wal.trickle.verify_stream_table("ranked")

    assert (verified.ok, verified.rows) == (True, 4)
    assert wal.rows(NOTHING_LEFT) == []


def test_member_that_is_renamed_while_it_is_compared(shop: Lab, before: Interrupt):
    shop.run("UPDATE t SET v = v + 100 WHERE id IN (7, 8)")
    before(lambda: shop.trickle.rename_stream_table("share", "part"))

    assert shop.trickle.verify_stream_table("share").ok
    assert shop.trickle.verify_stream_table("part").ok


def test_failed_comparison_is_on_record_and_the_refresh_stays(shop: Lab, before: Interrupt):
    def fail() -> None:
        raise DataError("it cannot be compared", hint="Try again.")

    shop.run("UPDATE t SET v = v + 100 WHERE id IN (7, 8)")
    before(fail)

    with pytest.raises(DataError, match="cannot be compared"):
        shop.trickle.verify_stream_table("share")

    shop.check("share")
    assert shop.rows(NOTHING_LEFT) == []
    last = shop.trickle.refresh_history("share")[0]
    assert (last.status.value, last.error_message) == ("FAILED", "it cannot be compared")


def test_failed_copy_takes_the_group_back(shop: Lab, before: Interrupt):
    def fail() -> None:
        raise DataError("it cannot be copied", hint="Try again.")

    shop.run("UPDATE t SET v = v + 100 WHERE id IN (7, 8)")
    before(fail, "copy_rows")

    with pytest.raises(DataError, match="cannot be copied"):
        shop.trickle.verify_stream_table("share")

    assert shop.rows(NOTHING_LEFT) == []
    assert len(shop.differences("sums")) > 0
    assert shop.trickle.refresh_stream_table("share").action.value == "DIFFERENTIAL"


@pytest.mark.parametrize("name", ["sums", "share"])
def test_source_that_is_truncated_before_it_is_locked_is_read_again(
    shop: Lab, before: Interrupt, name: str
):
    def truncate() -> None:
        with psycopg.connect(shop.trickle.dsn, autocommit=True) as other:
            other.execute("SET lock_timeout = '5s'")
            other.execute("BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1, 1); COMMIT")

    before(truncate, "hold_sources", verify._Comparison)

    verified = shop.trickle.verify_stream_table(name)

    assert (verified.ok, verified.rows) == (True, 1)
    assert shop.rows(NOTHING_LEFT) == []


def test_source_that_is_locked_holds_nobody_up_for_long(shop: Lab, before: Interrupt):
    shop.run("UPDATE t SET v = v + 100 WHERE id IN (7, 8)")
    with psycopg.connect(shop.trickle.dsn) as other:
        before(lambda: other.execute("LOCK TABLE t"), "hold_sources", verify._Comparison)

        with pytest.raises(TrickleError, match="lock"):
            shop.trickle.verify_stream_table("sums")

    assert shop.rows(NOTHING_LEFT) == []
    assert shop.trickle.verify_stream_table("share").ok
