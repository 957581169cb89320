"""IMMEDIATE stream tables inside transactions: savepoints, cascades, other writers' rights."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.labs.lab import Lab

_TABLES = (
    "CREATE TABLE c (id int PRIMARY KEY, region text)",
    "CREATE TABLE o (id int PRIMARY KEY, c int REFERENCES c ON DELETE CASCADE ON UPDATE CASCADE,"
    " amount numeric)",
    "INSERT INTO c VALUES (1, 'north'), (2, 'south')",
    "INSERT INTO o VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30)",
)
_JOIN = "SELECT c.region, count(*), sum(o.amount) FROM o JOIN c ON c.id = o.c GROUP BY c.region"
_SUMS = "SELECT c, count(*), sum(amount), min(amount) FROM o GROUP BY c"
_COPY = "SELECT id, amount FROM o WHERE amount > 5"
_ALL = {"joined": _JOIN, "sums": _SUMS, "copied": _COPY}


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(*_TABLES)
    for name, query in _ALL.items():
        lab.create(name, query, "IMMEDIATE")
    return lab


def check(lab: Lab) -> None:
    for name in lab.queries:
        lab.check(name)


def test_a_rollback_takes_everything_back(shop: Lab) -> None:
    with shop.connection.transaction(force_rollback=True):
        shop.run("INSERT INTO o VALUES (9, 1, 1)", "DELETE FROM c WHERE id = 2")
        check(shop)
    check(shop)
    shop.run("INSERT INTO o VALUES (9, 2, 1)")
    check(shop)


def test_savepoints_nested_and_in_part(shop: Lab) -> None:
    with shop.connection.transaction():
        shop.run("INSERT INTO o VALUES (10, 1, 1)")
        shop.run("SAVEPOINT a", "UPDATE o SET amount = 7 WHERE id = 1", "SAVEPOINT b")
        shop.run("WITH x AS (DELETE FROM o WHERE id = 2) UPDATE c SET region = 'x' WHERE id = 2")
        check(shop)
        shop.run("ROLLBACK TO SAVEPOINT b")
        check(shop)
        shop.run("DELETE FROM o WHERE id = 3")
        check(shop)
        shop.run("ROLLBACK TO SAVEPOINT a")
        check(shop)
        shop.run("INSERT INTO o VALUES (11, 2, 1)")
        check(shop)
    check(shop)


def test_an_error_in_the_middle_of_a_statement(shop: Lab) -> None:
    for statement in (
        "INSERT INTO o VALUES (20, 1, 1), (1, 1, 1)",
        "INSERT INTO o SELECT n, 1, 1 / (25 - n) FROM generate_series(20, 30) n",
        "WITH x AS (INSERT INTO o VALUES (40, 1, 5)) INSERT INTO c VALUES (1, 'twice')",
    ):
        with pytest.raises(psycopg.Error):
            shop.run(statement)
        check(shop)
    shop.run(
        "DO $$ BEGIN INSERT INTO o VALUES (50, 1, 1);"
        " BEGIN INSERT INTO o VALUES (51, 1, 1), (50, 1, 1); EXCEPTION WHEN unique_violation THEN"
        " NULL; END; INSERT INTO o VALUES (52, 2, 2); END $$"
    )
    check(shop)


def test_cascades(shop: Lab) -> None:
    shop.run("UPDATE c SET id = id + 100, region = region || '!'")
    check(shop)
    shop.run("DELETE FROM c WHERE id = 101")
    check(shop)
    shop.run(
        "CREATE TABLE staff (id int PRIMARY KEY,"
        " boss int REFERENCES staff ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO staff SELECT n, nullif(n / 2, 0) FROM generate_series(1, 31) n",
    )
    query = "SELECT s.id, b.id AS boss FROM staff s LEFT JOIN staff b ON b.id = s.boss"
    shop.create("bosses", query, "IMMEDIATE")
    for statement in (
        "DELETE FROM staff WHERE id = 9",
        "DELETE FROM staff WHERE id = 2",
        "DELETE FROM staff WHERE id = 1",
    ):
        shop.run(statement)
        check(shop)
    assert shop.value("SELECT count(*) FROM pgtrickle.pgt_immediate_open") == 0


def test_a_trigger_of_the_user_writes_other_sources(shop: Lab) -> None:
    shop.run(
        "CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO c VALUES (NEW.id * 100, 'made') ON CONFLICT DO NOTHING;"
        " INSERT INTO o VALUES (NEW.id + 1000, NEW.id * 100, 3); RETURN NEW; END $$",
        "CREATE TRIGGER more BEFORE INSERT ON o FOR EACH ROW WHEN (NEW.id < 1000)"
        " EXECUTE FUNCTION more()",
        "INSERT INTO o SELECT n, 1, n FROM generate_series(60, 65) n",
    )
    check(shop)
    shop.run("ALTER TABLE o DISABLE TRIGGER more", "INSERT INTO o VALUES (80, 1, 1)")
    check(shop)


def test_copy_and_prepared_transactions(shop: Lab) -> None:
    with shop.connection.cursor().copy("COPY o FROM STDIN") as copy:
        for number in range(200, 500):
            copy.write_row((number, 1 + number % 2, number))
    check(shop)
    if shop.value("SHOW max_prepared_transactions") != "0":
        shop.run(
            "BEGIN; INSERT INTO o VALUES (600, 1, 1); PREPARE TRANSACTION 'immediate'",
            "COMMIT PREPARED 'immediate'",
        )
        check(shop)


def test_deferred_constraints(shop: Lab) -> None:
    shop.run(
        "CREATE TABLE d (id int PRIMARY KEY, o int REFERENCES o DEFERRABLE INITIALLY DEFERRED,"
        " n int, UNIQUE (n) DEFERRABLE)",
        "CREATE FUNCTION follow_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " UPDATE c SET region = region || '!' WHERE id = NEW.n; RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER later AFTER INSERT ON d DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION follow_up()",
    )
    query = "SELECT c.region, d.n, o.amount FROM d LEFT JOIN o ON o.id = d.o JOIN c ON c.id = d.n"
    shop.create("followed", query, "IMMEDIATE")

    with shop.connection.transaction():
        shop.run("INSERT INTO d VALUES (1, 80, 1), (2, 2, 2)")
        check(shop)
        shop.run("INSERT INTO o VALUES (80, 1, 5)", "UPDATE d SET n = 3 - n")
        check(shop)
    check(shop)
    assert shop.value("SELECT count(*) FROM c WHERE region LIKE '%!'") == 2
    with pytest.raises(psycopg.errors.ForeignKeyViolation), shop.connection.transaction():
        shop.run("INSERT INTO d VALUES (3, 999, 4)")
    check(shop)
    with shop.connection.transaction():
        shop.run("SET CONSTRAINTS ALL IMMEDIATE", "INSERT INTO d VALUES (3, 1, 4)")
        check(shop)


def test_writers_without_rights(shop: Lab) -> None:
    shop.run(
        "DROP ROLE IF EXISTS im_writer",
        "CREATE ROLE im_writer LOGIN",
        "GRANT USAGE ON SCHEMA public TO im_writer",
        "GRANT INSERT, UPDATE, DELETE, SELECT ON o TO im_writer",
        "ALTER TABLE o ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY odd ON o TO im_writer USING (id % 2 = 1) WITH CHECK (true)",
    )
    dsn = make_conninfo(shop.trickle.dsn, user="im_writer")
    try:
        with psycopg.connect(dsn, autocommit=True) as writer:
            # Settings and temporary tables of the writer change nothing.
            writer.execute("SET TimeZone = 'Asia/Tokyo'")
            writer.execute("SET search_path = pg_temp, public")
            writer.execute("CREATE TEMPORARY TABLE c (id int, region text)")
            writer.execute("INSERT INTO public.o VALUES (70, 1, 7), (71, 2, 8)")
            check(shop)
            writer.execute("UPDATE public.o SET amount = amount + 1")
            check(shop)
            writer.execute("DELETE FROM public.o WHERE id = 71")
            check(shop)
            for statement in (
                "SELECT * FROM sums",
                "DELETE FROM public.sums",
                "SELECT pgtrickle.take_turns(1, '{0}')",
                "SELECT * FROM pgtrickle.pgt_immediate",
            ):
                with pytest.raises(psycopg.Error):
                    writer.execute(statement.encode())
    finally:
        shop.run("DROP OWNED BY im_writer", "DROP ROLE im_writer")


def test_the_guard_stays_closed_after_a_write(shop: Lab) -> None:
    with shop.connection.transaction():
        shop.run("INSERT INTO o VALUES (75, 1, 7)")
        with pytest.raises(psycopg.Error, match="is a stream table"), shop.connection.transaction():
            shop.run("DELETE FROM sums")
    check(shop)


def test_partitions(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE p (id int, day int, v int) PARTITION BY RANGE (day)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 (v int, day int, id int)",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p SELECT n, n % 20, n FROM generate_series(1, 50) n",
    )
    lab.create("sums", "SELECT day, sum(v), count(*) FROM p GROUP BY day", "IMMEDIATE")
    lab.create(
        "pairs", "SELECT a.id, b.id AS other FROM p a JOIN p b ON a.v = b.v + 1", "IMMEDIATE"
    )
    for statement in (
        "INSERT INTO p VALUES (60, 3, 3), (61, 13, 3)",
        "INSERT INTO p2 VALUES (5, 15, 62)",
        "UPDATE p SET day = day + 10 WHERE day < 3",
        "DELETE FROM p1 WHERE id < 20",
        "TRUNCATE p1",
        "INSERT INTO p VALUES (70, 1, 1)",
        "TRUNCATE p",
        "INSERT INTO p SELECT n, n % 20, n FROM generate_series(1, 9) n",
    ):
        lab.run(statement)
        for name in lab.queries:
            assert lab.differences(name) == [], (statement, name)
    # What comes with a new partition is unknown to the triggers, but not overlooked.
    lab.run(
        "CREATE TABLE p3 AS SELECT 100 AS id, 25 AS day, 1 AS v",
        "ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30)",
        "INSERT INTO p VALUES (71, 1, 1)",
    )
    assert lab.value("SELECT count(*) FROM pgtrickle.pgt_immediate WHERE NOT ready") == 2
    for name in lab.queries:
        lab.refresh(name, "REINITIALIZE")
    lab.run("INSERT INTO p3 VALUES (101, 26, 2)", "INSERT INTO p VALUES (102, 27, 3)")
    check(lab)


def test_no_writer_fails_because_a_source_was_altered(shop: Lab) -> None:
    shop.run(
        "ALTER TABLE o ADD COLUMN extra text",
        "ALTER TABLE c ADD COLUMN extra text",
        "INSERT INTO o VALUES (81, 1, 1, 'x')",
        "ALTER TABLE o DROP COLUMN extra",
        "ALTER TABLE c DROP COLUMN extra",
        "INSERT INTO o VALUES (82, 2, 1)",
    )
    check(shop)
    assert shop.value("SELECT bool_and(ready) FROM pgtrickle.pgt_immediate")
    shop.run("ALTER TABLE o RENAME COLUMN amount TO sum", "INSERT INTO o VALUES (83, 2, 1)")
    shop.run("ALTER TABLE o RENAME COLUMN sum TO amount")
    assert shop.value("SELECT count(*) FROM pgtrickle.pgt_immediate WHERE NOT ready") == 3
    for name in shop.queries:
        shop.trickle.refresh_stream_table(name)
    check(shop)
    shop.run(
        "ALTER TABLE o ALTER COLUMN amount TYPE numeric(20, 3)", "INSERT INTO o VALUES (84, 1, 1)"
    )
    shop.run("INSERT INTO o VALUES (85, 1, 1)")
    shop.run("ALTER TABLE o DROP COLUMN amount", "INSERT INTO o VALUES (86, 1)")


def test_no_writer_fails_because_a_stream_table_was_renamed_or_dropped(shop: Lab) -> None:
    shop.run("ALTER TABLE sums RENAME TO totals", "CREATE SCHEMA elsewhere")
    shop.run("ALTER TABLE joined SET SCHEMA elsewhere", "DROP TABLE copied CASCADE")
    shop.run("INSERT INTO o VALUES (87, 1, 1)", "DELETE FROM o WHERE id = 1")
    assert shop.value("SELECT count(*) FROM pgtrickle.immediate_status() WHERE ready") == 0
    del shop.queries["copied"]
    shop.queries["totals"] = shop.queries.pop("sums")
    shop.queries["elsewhere.joined"] = shop.queries.pop("joined")
    for name in shop.queries:
        shop.trickle.refresh_stream_table(name)
    shop.run("INSERT INTO o VALUES (88, 1, 1)")
    check(shop)
    shop.trickle.drop_stream_table("copied")
    shop.run("INSERT INTO o VALUES (89, 1, 1)")
    check(shop)


def test_too_many_rows(lab: Lab) -> None:
    lab.run(*_TABLES)
    settings = lab.trickle._runtime.settings
    object.__setattr__(settings, "immediate_max_delta_rows", 10)
    try:
        lab.create("sums", _SUMS, "IMMEDIATE")
        lab.run("INSERT INTO o SELECT n, 1, n FROM generate_series(100, 109) n")
        lab.check("sums")
        lab.run("INSERT INTO o SELECT n, 1, n FROM generate_series(200, 220) n")
        assert lab.differences("sums") != []
        lab.run("INSERT INTO o VALUES (300, 1, 1)")
        report = lab.trickle.refresh_stream_table("sums")
        assert report.action.value == "FULL"
        lab.check("sums")
        object.__setattr__(settings, "immediate_excess", "error")
        lab.trickle.refresh_stream_table("sums")
        with pytest.raises(psycopg.Error, match="more than 10 rows") as caught:
            lab.run("DELETE FROM o")
        assert caught.value.sqlstate == "ST420"
        assert "immediate_max_delta_rows" in (caught.value.diag.message_hint or "")
        lab.check("sums")
    finally:
        object.__setattr__(settings, "immediate_max_delta_rows", 100_000)
        object.__setattr__(settings, "immediate_excess", "defer")


def test_capture_switched_off_is_noticed(shop: Lab) -> None:
    with shop.connection.transaction():
        shop.run("SET LOCAL pg_trickle.enabled = off", "INSERT INTO o VALUES (90, 1, 1)")
    assert shop.value("SELECT count(*) FROM pgtrickle.pgt_immediate WHERE NOT ready") == 3
    for name in shop.queries:
        shop.trickle.refresh_stream_table(name)
    shop.run("INSERT INTO o VALUES (91, 1, 1)")
    check(shop)


_MERGE = """
    MERGE INTO p USING (VALUES {}) AS v (id, day) ON p.id = v.id AND p.day = v.day
     WHEN MATCHED AND v.id = 3 THEN DELETE
     WHEN MATCHED THEN UPDATE SET v = p.v + 1
     WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.day, 7)
"""


@pytest.mark.parametrize("mode", ["DIFFERENTIAL", "IMMEDIATE"])
def test_a_merge_that_inserts_and_then_updates_partitions(lab: Lab, mode: str) -> None:
    lab.run(
        "CREATE TABLE p (id int, day int, v int) PARTITION BY RANGE (day)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p DEFAULT PARTITION BY LIST (id)",
        "CREATE TABLE p3 (v int, day int, id int)",
        "ALTER TABLE p2 ATTACH PARTITION p3 DEFAULT",
        "INSERT INTO p VALUES (1, 1, 1), (2, 12, 2), (3, 13, 3), (4, 4, 4)",
    )
    lab.create("copied", "SELECT * FROM p", mode)
    # Another MERGE has its rows in another order.
    for rows in ("(9, 9), (1, 1), (8, 18), (2, 12), (3, 13), (4, 4)", "(3, 13), (2, 12), (7, 17)"):
        lab.run(_MERGE.format(rows))
        if mode == "DIFFERENTIAL":
            lab.trickle.refresh_stream_table("copied")
        lab.check("copied")
    # Whoever makes a partition needs no right on ours.
    lab.run("CREATE ROLE im_maker", "GRANT USAGE, CREATE ON SCHEMA public TO im_maker")
    try:
        lab.run(
            "ALTER TABLE p OWNER TO im_maker",
            "SET ROLE im_maker",
            "CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (30) TO (40)",
            "INSERT INTO p VALUES (5, 35, 5)",
            "RESET ROLE",
        )
    finally:
        lab.run("RESET ROLE", "DROP OWNED BY im_maker CASCADE", "DROP ROLE im_maker")
