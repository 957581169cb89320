"""Groups that stay show another row in place, unless somebody could tell that from two rows."""

from __future__ import annotations

import re

import psycopg
import pytest

from tests.labs.lab import Lab

_TABLES = (
    "CREATE TABLE t (k int, j text, v int, w numeric(8, 2))",
    "INSERT INTO t SELECT n % 4, 'j' || n % 2, n, n FROM generate_series(1, 20) n",
)
_QUESTION = "SELECT prosrc FROM pg_proc WHERE proname ~ '^st_\\d+_after_\\d+_insert$'"
_SUMS = "SELECT j, sum(w) / count(*) AS mean, k, count(v) AS n, sum(v) AS v FROM t GROUP BY k, j"


def written(lab: Lab, name: str = "sums") -> tuple[int, int, int]:
    """Return the rows that the transaction has inserted, updated and deleted."""
    [found] = lab.rows(
        "SELECT n_tup_ins::int, n_tup_upd::int, n_tup_del::int FROM pg_stat_xact_user_tables"
        f" WHERE relname = '{name}'"
    )
    return found[0], found[1], found[2]


def change(lab: Lab, *statements: str) -> tuple[int, ...]:
    """Run statements in one transaction; return what they inserted, updated and deleted."""
    with lab.connection.transaction():
        before = written(lab)
        lab.run(*statements)
        return tuple(now - was for now, was in zip(written(lab), before, strict=True))


def is_undisturbed(lab: Lab) -> bool | None:
    """Ask what writers ask before they take anything for granted."""
    pattern = re.compile(r"IF (\(\s+SELECT i\.ready.*?)\s+THEN$", re.DOTALL | re.MULTILINE)
    found = pattern.search(lab.value(_QUESTION))
    assert found is not None
    with lab.connection.transaction():
        lab.run("SET LOCAL search_path = pg_catalog, pg_temp")
        answer: bool | None = lab.value(f"SELECT {found[1]}")
    return answer


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(*_TABLES, "INSERT INTO t VALUES (NULL, NULL, NULL, 1), (NULL, 'x', 1, NULL)")
    lab.create("sums", _SUMS, "IMMEDIATE")
    return lab


def test_only_new_and_lost_groups_are_inserted_and_deleted(shop: Lab) -> None:
    steps = (
        ("INSERT INTO t VALUES (1, 'j1', 5, 1.50)", (0, 1, 0)),
        ("INSERT INTO t VALUES (NULL, NULL, 5, 1.50), (NULL, 'x', NULL, 2)", (0, 2, 0)),
        ("UPDATE t SET v = v + 1, w = NULL WHERE k < 3", (0, 3, 0)),
        ("UPDATE t SET v = v WHERE k < 3", (0, 0, 0)),
        ("UPDATE t SET k = 2 WHERE k = 0 AND v = 5", (0, 2, 0)),
        ("DELETE FROM t WHERE v = 5", (0, 2, 0)),
        ("INSERT INTO t VALUES (9, 'j1', 5, 1), (1, 'j1', 1, 1)", (2, 0, 1)),
        ("DELETE FROM t WHERE k = 9", (0, 0, 1)),
        ("DELETE FROM t WHERE k IS NULL AND j IS NULL", (0, 0, 1)),
        ("TRUNCATE t", (0, 0, 5)),
        ("INSERT INTO t SELECT n % 300, 'a', n, n FROM generate_series(1, 900) n", (300, 0, 0)),
        ("INSERT INTO t SELECT n % 300, 'a', n, n FROM generate_series(1, 900) n", (0, 300, 0)),
    )
    for statement, expected in steps:
        assert change(shop, statement) == expected, statement
        shop.check("sums")
    shop.value("SELECT pg_stat_force_next_flush()::text")
    inserted, deleted = shop.rows(
        "SELECT rows_inserted::int, rows_deleted::int FROM pgtrickle.immediate_status()"
    )[0]
    assert inserted >= 300
    assert deleted >= 8


def test_whoever_has_a_trigger_sees_two_rows(shop: Lab) -> None:
    shop.run(
        "CREATE TABLE seen (what text)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO public.seen VALUES (TG_OP); RETURN NULL; END $$",
        "CREATE TRIGGER noted AFTER INSERT OR DELETE ON sums FOR EACH ROW EXECUTE FUNCTION note()",
    )
    assert change(shop, "INSERT INTO t VALUES (1, 'j1', 5, 1.50)") == (1, 0, 1)
    assert shop.rows("SELECT what FROM seen ORDER BY 1") == [("DELETE",), ("INSERT",)]
    shop.check("sums")
    shop.run("DROP TRIGGER noted ON sums")
    assert change(shop, "INSERT INTO t VALUES (1, 'j1', 5, 1.50)") == (0, 1, 0)
    # A stream table that reads it follows by triggers, too.
    shop.create("reader", "SELECT k, n FROM sums WHERE n > 3", "IMMEDIATE")
    assert change(shop, "INSERT INTO t VALUES (1, 'j1', 5, 1.50)") == (1, 0, 1)
    shop.check("reader")
    shop.check("sums")


def test_a_snapshot_that_may_not_show_a_trigger_changes_nothing_in_place(shop: Lab) -> None:
    shop.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    assert change(shop, "INSERT INTO t VALUES (1, 'j1', 5, 1.50)") == (1, 0, 1)
    shop.check("sums")


def test_a_row_that_is_missing_fails_the_statement(shop: Lab) -> None:
    with shop.unwatched():
        shop.run("ALTER TABLE sums DISABLE TRIGGER ALL", "DELETE FROM sums WHERE k = 1")
        shop.run("ALTER TABLE sums ENABLE TRIGGER ALL")
    with pytest.raises(psycopg.Error, match="does not contain all rows that go") as caught:
        shop.run("INSERT INTO t VALUES (1, 'j1', 5, 1.50)")
    assert caught.value.sqlstate == "ST406"


def test_too_many_rows_of_one_group_are_not_followed(lab: Lab) -> None:
    settings = lab.trickle._runtime.settings
    object.__setattr__(settings, "immediate_max_delta_rows", 3)
    try:
        lab.run(*_TABLES)
        lab.create("sums", _SUMS, "IMMEDIATE")
        assert change(lab, "INSERT INTO t SELECT 1, 'j1', 1, 1 FROM generate_series(1, 3)")[1] == 1
        lab.check("sums")
        assert change(lab, "INSERT INTO t SELECT 1, 'j1', 1, 1 FROM generate_series(1, 4)")[1] == 0
        assert lab.value("SELECT reason FROM pgtrickle.immediate_status()").startswith(
            "a statement"
        )
    finally:
        object.__setattr__(settings, "immediate_max_delta_rows", 100_000)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, min(v) AS low FROM t GROUP BY k",
        "SELECT k FROM t GROUP BY k",
        "SELECT 2 AS two FROM t GROUP BY GROUPING SETS ((k, j), k, ())",
        "SELECT count(*) AS n FROM t GROUP BY k",
        "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING sum(v) > 30",
    ],
)
def test_other_queries_follow_as_well(lab: Lab, query: str) -> None:
    lab.run(*_TABLES)
    lab.create("sums", query, "IMMEDIATE")
    for statement in (
        "INSERT INTO t VALUES (1, 'j1', 5, 1.50)",
        "UPDATE t SET v = v + 1",
        "UPDATE t SET k = k + 1",
        "DELETE FROM t WHERE k = 2",
    ):
        assert change(lab, statement)[1] == 0
        lab.check("sums")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t RENAME COLUMN v TO x",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t ALTER COLUMN v TYPE bigint USING v * 2",
        "ALTER TABLE t SET SCHEMA other",
        "ALTER SCHEMA public RENAME TO former",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        "ALTER TABLE sums RENAME COLUMN n TO m",
        "ALTER TABLE t DROP COLUMN v CASCADE",
    ],
)
def test_every_change_of_what_is_used_changes_the_stamp(shop: Lab, statement: str) -> None:
    """It may change for other reasons, too: then everything is compared."""
    assert is_undisturbed(shop)
    shop.run(
        "CREATE SCHEMA other", "CREATE INDEX ON t (k)", "ANALYZE t", "INSERT INTO t VALUES (1)"
    )
    assert is_undisturbed(shop)
    with shop.connection.transaction(force_rollback=True):
        shop.run(statement)
        assert not is_undisturbed(shop)
    assert is_undisturbed(shop)
