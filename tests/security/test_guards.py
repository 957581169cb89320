"""Nobody opens the guard of a stream table, and a refresh runs no code of others."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.errors import PrivilegeError, TableNotSafeError, UnsupportedSourceError
from tests.labs.lab import Lab
from tests.security.bench import REVENUE, Bench

WRITE = "INSERT INTO shop.orders VALUES (4, 'west', 7)"
SPY = (
    "CREATE TABLE mine.seen (who text)",
    "GRANT INSERT ON mine.seen TO PUBLIC",
    "GRANT USAGE ON SCHEMA mine TO PUBLIC",
    "CREATE FUNCTION mine.spy() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN INSERT INTO mine.seen VALUES (current_user); RETURN NEW; END'",
    "CREATE FUNCTION mine.spy(text) RETURNS boolean LANGUAGE plpgsql AS"
    " 'BEGIN INSERT INTO mine.seen VALUES (current_user); RETURN true; END'",
)
HARMLESS = (
    "CREATE FUNCTION shop.harmless() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
)


@pytest.fixture
def bench(empty_bench: Bench) -> Bench:
    """Let the test say who makes the catalog, and what is there before."""
    return empty_bench


@pytest.fixture
def spied(bench: Bench) -> Bench:
    """Let the attacker have a schema of his own, with functions that tell who runs them."""
    bench.run("admin", "CREATE SCHEMA mine AUTHORIZATION {attacker}")
    bench.run("attacker", *SPY)
    bench.run("owner", "GRANT USAGE ON SCHEMA shop TO {attacker}", HARMLESS)
    return bench


def revenue(bench: Bench, lab: Lab) -> None:
    lab.create("shop.revenue", REVENUE)
    bench.run("owner", "GRANT TRIGGER ON shop.revenue TO {attacker}")


def refused(lab: Lab) -> None:
    """Check that a refresh writes nothing and says why."""
    with pytest.raises(TableNotSafeError) as caught:
        lab.trickle.refresh_stream_table("shop.revenue")
    assert caught.value.code == "ST309"
    assert caught.value.hint


def test_setting_does_not_open_the_guard_for_a_writer(bench: Bench):
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        bench.run("owner", "GRANT INSERT, DELETE, TRUNCATE ON shop.revenue TO {writer}")
        relid = lab.value("SELECT 'shop.revenue'::regclass::oid")
        writer = bench.open("writer")
        writer.execute(f"SET pg_trickle.refreshing = '{relid}'".encode())

        for statement in (
            "INSERT INTO shop.revenue VALUES ('x', 1)",
            "DELETE FROM shop.revenue",
            "TRUNCATE shop.revenue",
        ):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
                writer.execute(statement.encode())
        lab.check("shop.revenue")


@pytest.mark.parametrize(
    "trigger",
    [
        "AFTER INSERT ON shop.revenue EXECUTE FUNCTION mine.spy()",
        "BEFORE INSERT ON shop.revenue FOR EACH STATEMENT EXECUTE FUNCTION mine.spy()",
        "BEFORE INSERT ON shop.revenue FOR EACH ROW EXECUTE FUNCTION mine.spy()",
        "AFTER INSERT ON shop.revenue FOR EACH ROW WHEN (mine.spy(NEW.region))"
        " EXECUTE FUNCTION shop.harmless()",
    ],
)
def test_trigger_of_a_stranger_does_not_run_with_our_rights(spied: Bench, trigger: str):
    with spied.lab() as lab:
        revenue(spied, lab)
        spied.run("attacker", f"CREATE TRIGGER aaa {trigger}")
        spied.run("writer", WRITE)

        refused(lab)

        assert spied.value("admin", "SELECT count(*) FROM mine.seen") == 0
        spied.run("owner", "DROP TRIGGER aaa ON shop.revenue")
        lab.refresh("shop.revenue")


def test_trigger_that_comes_while_a_refresh_computes_does_not_run(spied: Bench):
    with spied.lab() as lab:
        revenue(spied, lab)
        spied.run("writer", WRITE)
        lab.before_next_stage(
            lambda: spied.run(
                "attacker",
                "CREATE TRIGGER aaa AFTER INSERT ON shop.revenue EXECUTE FUNCTION mine.spy()",
            )
        )

        refused(lab)

        assert spied.value("admin", "SELECT count(*) FROM mine.seen") == 0


def test_trigger_that_comes_while_a_group_is_refreshed_does_not_run(spied: Bench):
    with spied.lab() as lab:
        revenue(spied, lab)
        lab.create("shop.regions", "SELECT region, count(*) AS n FROM shop.orders GROUP BY region")
        lab.create(
            "shop.both",
            "SELECT region, total, n FROM shop.revenue JOIN shop.regions USING (region)",
        )
        spied.run("writer", WRITE)
        late: list[str] = []

        def come() -> None:
            attacker = spied.open("attacker")
            attacker.execute("SET lock_timeout = '300ms'")
            try:
                attacker.execute(
                    "CREATE TRIGGER aaa AFTER INSERT ON shop.revenue EXECUTE FUNCTION mine.spy()"
                )
            except psycopg.errors.LockNotAvailable as error:
                late.append(error.sqlstate or "")

        lab.before_next_stage(come)
        lab.trickle.refresh_stream_table("shop.both")

        assert late == ["55P03"]
        assert spied.value("admin", "SELECT count(*) FROM mine.seen") == 0
        lab.check("shop.both")


@pytest.mark.parametrize(
    ("obstacle", "undo"),
    [
        (
            "CREATE TRIGGER own BEFORE INSERT ON shop.revenue FOR EACH ROW"
            " EXECUTE FUNCTION shop.harmless()",
            "DROP TRIGGER own ON shop.revenue",
        ),
        (
            "CREATE RULE never AS ON DELETE TO shop.revenue DO INSTEAD NOTHING",
            "DROP RULE never ON shop.revenue",
        ),
        (
            "ALTER TABLE shop.revenue ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
            "ALTER TABLE shop.revenue NO FORCE ROW LEVEL SECURITY",
        ),
    ],
)
def test_what_would_change_or_hide_rows_stops_a_refresh(spied: Bench, obstacle: str, undo: str):
    with spied.lab() as lab:
        revenue(spied, lab)
        spied.run("owner", obstacle)
        spied.run("writer", WRITE, "DELETE FROM shop.orders WHERE id = 2")

        refused(lab)

        spied.run("owner", undo)
        lab.refresh("shop.revenue")


def test_own_trigger_and_policies_for_readers_are_welcome(spied: Bench):
    with spied.lab() as lab:
        revenue(spied, lab)
        spied.run(
            "owner",
            "CREATE TRIGGER own AFTER INSERT OR DELETE ON shop.revenue FOR EACH ROW"
            " EXECUTE FUNCTION shop.harmless()",
            "ALTER TABLE shop.revenue ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY north ON shop.revenue TO {reader} USING (region = 'north')",
        )
        spied.run("writer", WRITE)

        lab.refresh("shop.revenue")


@pytest.mark.parametrize("partition", [False, True])
def test_source_that_becomes_unlogged_is_not_trusted(bench: Bench, *, partition: bool):
    bench.run(
        "owner",
        "CREATE TABLE shop.months (k int, month int) PARTITION BY LIST (month)",
        "CREATE TABLE shop.month_1 PARTITION OF shop.months FOR VALUES IN (1)",
        "INSERT INTO shop.months VALUES (1, 1)",
    )
    with bench.lab() as lab:
        lab.create("shop.counts", "SELECT k, count(*) AS n FROM shop.months GROUP BY k")
        lab.create("shop.revenue", REVENUE)
        table, name = ("orders", "revenue") if not partition else ("month_1", "counts")
        bench.run("owner", f"ALTER TABLE shop.{table} SET UNLOGGED")
        describe = (
            "SELECT pgtrickle.describe_source(source_relid, columns_used) <> schema_fingerprint"
            " FROM pgtrickle.pgt_dependencies JOIN pgtrickle.pgt_stream_tables USING (pgt_id)"
            f" WHERE pgt_name = '{name}'"
        )
        assert lab.value(describe)

        with pytest.raises(UnsupportedSourceError):
            lab.trickle.refresh_stream_table(f"shop.{name}")

        bench.run("owner", f"ALTER TABLE shop.{table} SET LOGGED")
        lab.refresh(f"shop.{name}", "REINITIALIZE")


def test_hidden_rows_are_an_error_for_who_only_reads(spied: Bench):
    with spied.lab() as lab:
        revenue(spied, lab)
        spied.run(
            "owner",
            "ALTER TABLE shop.revenue ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        )

        with pytest.raises(PrivilegeError):  # and not: rows are missing
            lab.trickle.verify_stream_table("shop.revenue")


def test_strings_of_the_role_are_read_as_ours(spied: Bench):
    owner = spied.roles["owner"]
    spied.run("admin", f"ALTER ROLE {owner} SET standard_conforming_strings = off")
    with spied.lab() as lab:
        lab.run(
            "CREATE TABLE shop.words (id int PRIMARY KEY, w text)",
            "INSERT INTO shop.words VALUES (1, chr(92)), (2, 'x')",
        )
        lab.create("shop.told", "SELECT w, count(*) AS n FROM shop.words GROUP BY w")
        lab.run("INSERT INTO shop.words VALUES (3, chr(92) || chr(39))")

        lab.refresh("shop.told")
