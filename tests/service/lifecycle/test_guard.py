"""Nobody writes to a stream table but a refresh, and the triggers of users fire for that."""

from __future__ import annotations

import psycopg
import pytest

from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n FROM t GROUP BY k"


@pytest.fixture
def counted(lab: Lab) -> Lab:
    lab.run(*T)
    lab.create("counts", COUNTS)
    return lab


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO counts VALUES (9, 9)",
        "UPDATE counts SET n = 0",
        "DELETE FROM counts WHERE false",
        "TRUNCATE counts",
        "MERGE INTO counts USING (VALUES (1)) AS v (k) ON counts.k = v.k WHEN MATCHED THEN DELETE",
        "WITH gone AS (DELETE FROM counts RETURNING k) SELECT * FROM gone",
    ],
)
def test_direct_write_is_refused_with_a_hint(counted: Lab, statement: str):
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        counted.run(statement)

    assert '"public.counts" is a stream table' in str(caught.value)
    assert "pgtrickle drop" in (caught.value.diag.message_hint or "")
    counted.window("INSERT INTO t VALUES (3, 1)")


def test_copy_into_a_stream_table_is_refused(counted: Lab):
    with (
        pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState),
        counted.connection.cursor().copy("COPY counts FROM STDIN") as copy,
    ):
        copy.write_row((9, 9))
    counted.check("counts")


def test_word_of_one_stream_table_does_not_open_another(counted: Lab):
    counted.create("copy", "SELECT id, k FROM t")
    relid = counted.value("SELECT 'copy'::regclass::oid")
    counted.run(f"SET pg_trickle.refreshing = '{relid}'")

    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        counted.run("DELETE FROM counts")
    counted.run("RESET pg_trickle.refreshing")


def test_triggers_of_users_fire_with_what_a_refresh_writes(counted: Lab):
    counted.run(
        "CREATE TABLE log (op text, k int, n bigint)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$"
        " BEGIN INSERT INTO log VALUES (TG_OP, coalesce(NEW.k, OLD.k), coalesce(NEW.n, OLD.n));"
        " RETURN NULL; END $$",
        "CREATE TRIGGER noting AFTER INSERT OR DELETE ON counts FOR EACH ROW"
        " EXECUTE FUNCTION note()",
    )
    counted.window("INSERT INTO t VALUES (3, 1), (4, 2)")
    assert counted.rows("TABLE log") == [("DELETE", 1, 2), ("INSERT", 1, 3), ("INSERT", 2, 1)]

    counted.run("TRUNCATE log", "TRUNCATE t", "INSERT INTO t VALUES (4, 2)")
    counted.window(action="FULL")
    assert counted.rows("TABLE log") == [("DELETE", 1, 3)]
