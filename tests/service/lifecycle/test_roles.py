"""Roles without special powers, and what shadows names on the search path (P16, P53)."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.errors import (
    ForeignCatalogError,
    NotOwnerError,
    PrivilegeError,
    UnsupportedSourceError,
    WalUnavailableError,
)
from tests.catalog.databases import ordinary_role
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab
from tests.labs.wal_lab import create, modes, need_log

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n, max(id) AS last FROM t GROUP BY k"


@pytest.fixture
def database(empty_database: str) -> str:
    """Let an ordinary role make the catalog."""
    return empty_database


@pytest.fixture
def role(database: str) -> Iterator[str]:
    with ordinary_role(database) as name:
        yield name


@pytest.fixture
def other_role(database: str) -> Iterator[str]:
    with ordinary_role(database) as name:
        yield name


@pytest.fixture
def admin(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def ordinary(
    database: str, role: str, admin: psycopg.Connection, duckdb_engine: DuckDbEngine
) -> Iterator[Lab]:
    """Work as a role that may create schemas in the database and tables in public, no more."""
    admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {role}".encode())
    admin.execute(f"GRANT CREATE ON SCHEMA public TO {role}".encode())
    dsn = make_conninfo(database, user=role)
    with (
        pgtrickle.connect(dsn, engine=Borrowed(duckdb_engine), init=True) as trickle,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        yield Lab(trickle, connection)


def test_ordinary_role_lives_the_whole_life(ordinary: Lab):
    ordinary.run(*T)
    ordinary.create("copy", "SELECT id, k FROM t")
    ordinary.create("counts", COUNTS)
    ordinary.create("best", "SELECT max(n) AS n FROM counts")

    ordinary.window("UPDATE t SET k = 2 WHERE id = 1", "INSERT INTO t VALUES (3, 3)")
    ordinary.trickle.drop_stream_table("counts", cascade=True)
    ordinary.trickle.drop_stream_table("copy")

    assert ordinary.leftovers() == []


def test_ordinary_role_with_replication_reads_the_log(
    ordinary: Lab, role: str, admin: psycopg.Connection
):
    need_log(ordinary)
    ordinary.run(*T)
    with pytest.raises(WalUnavailableError):
        ordinary.trickle.create_stream_table("copy", "SELECT id, k FROM t", cdc_mode="wal")
    admin.execute(f"ALTER ROLE {role} REPLICATION".encode())

    ordinary.trickle.create_stream_table("copy", "SELECT id, k FROM t", cdc_mode="wal")
    ordinary.queries["copy"] = "SELECT id, k FROM t"
    ordinary.window("UPDATE t SET k = 2 WHERE id = 1", "INSERT INTO t VALUES (3, 3)")
    ordinary.trickle.alter_stream_table("copy", cdc_mode="trigger")
    ordinary.window("DELETE FROM t WHERE id = 2")
    ordinary.trickle.drop_stream_table("copy")

    assert ordinary.leftovers() == []


def test_role_that_loses_replication_goes_back_to_triggers(
    ordinary: Lab, role: str, admin: psycopg.Connection
):
    need_log(ordinary)
    ordinary.run(*T)
    admin.execute(f"ALTER ROLE {role} REPLICATION".encode())
    create(ordinary, "copy", "SELECT id, k FROM t")
    ordinary.run("INSERT INTO t VALUES (3, 3)")
    admin.execute(f"ALTER ROLE {role} NOREPLICATION".encode())

    [report] = ordinary.window(action="REINITIALIZE")

    assert "permission denied" in report.reason
    assert modes(ordinary) == {"t": "TRIGGER"}
    ordinary.window("DELETE FROM t WHERE id = 2")
    assert ordinary.trickle.capture.slot_health() is not None  # it is still there, and must be seen
    admin.execute(f"ALTER ROLE {role} REPLICATION".encode())
    ordinary.trickle.drop_stream_table("copy")
    assert ordinary.trickle.capture.slot_health() is None


def test_p16_transactions_that_a_role_may_not_see_are_waited_for(
    ordinary: Lab, other_role: str, database: str
):
    ordinary.run(*T)
    ordinary.create("counts", COUNTS)
    ordinary.run(f"GRANT SELECT, INSERT ON t TO {other_role}")
    with psycopg.connect(make_conninfo(database, user=other_role)) as writer:
        writer.execute("INSERT INTO t VALUES (10, 9)")
        seen = ordinary.rows(
            f"SELECT state, xact_start FROM pg_stat_activity WHERE usename = '{other_role}'"
        )
        ordinary.window("INSERT INTO t VALUES (3, 3)")
        ordinary.window(action="NO_DATA")
        writer.commit()

    ordinary.window()

    assert seen == [(None, None)]  # PostgreSQL hides the other's transaction
    assert ordinary.rows("SELECT n FROM counts WHERE k = 9") == [(1,)]


def test_p53_writer_without_rights_is_captured(
    ordinary: Lab, other_role: str, database: str, admin: psycopg.Connection
):
    ordinary.run(*T)
    ordinary.create("counts", COUNTS)
    ordinary.run(f"GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON t TO {other_role}")
    with psycopg.connect(make_conninfo(database, user=other_role), autocommit=True) as writer:
        writer.execute("INSERT INTO t VALUES (3, 3)")
        writer.execute("UPDATE t SET k = 9 WHERE id = 1")
        ordinary.window()
        writer.execute("DELETE FROM t WHERE id = 2")
        ordinary.window()
        writer.execute("TRUNCATE t")
        ordinary.window(action="FULL")

        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            writer.execute("SELECT * FROM pgtrickle.pgt_stream_tables")


def test_p53_writers_search_path_does_not_hijack_the_capture(lab: Lab):
    lab.run(*T)
    lab.create("counts", COUNTS)
    lab.run(
        "CREATE SCHEMA hostile",
        "CREATE FUNCTION hostile.pg_current_xact_id() RETURNS xid8 LANGUAGE sql"
        " AS $$ SELECT '7'::xid8 $$",
        "CREATE FUNCTION hostile.count() RETURNS bigint LANGUAGE sql AS $$ SELECT 7::bigint $$",
        "SET search_path = hostile, pg_catalog, public",
    )

    lab.run("INSERT INTO t VALUES (3, 3)", "UPDATE t SET k = 4 WHERE id = 1", "RESET search_path")
    lab.window()


HOSTILE = (
    # Better matches than the built-in ones, in the schema that the user's search_path names.
    "CREATE FUNCTION public.upper(varchar) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'x' $$",
    "CREATE FUNCTION public.wrong(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE"
    " AS $$ SELECT false $$",
    "CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = int, FUNCTION = public.wrong)",
    "CREATE OPERATOR public.<> (LEFTARG = bigint, RIGHTARG = int, FUNCTION = public.wrong2)",
    "CREATE AGGREGATE public.sum(int) (SFUNC = int4pl, STYPE = int, INITCOND = '1000')",
    "CREATE DOMAIN public.text AS varchar(1)",
)


def test_functions_and_operators_in_public_do_not_hijack_our_own_statements(lab: Lab):
    lab.run(*T, "CREATE TABLE u (k int, name varchar)", "INSERT INTO u VALUES (1, 'one')")
    lab.run(
        "CREATE FUNCTION public.wrong2(bigint, int) RETURNS boolean LANGUAGE sql IMMUTABLE"
        " AS $$ SELECT false $$"
    )
    lab.run(*HOSTILE)
    lab.create("counts", COUNTS)
    lab.create("pairs", "SELECT t.id, u.name FROM t JOIN u ON u.k = t.k")
    lab.create(
        "sums",
        "SELECT t.k, sum(t.id) AS s, upper(u.name) AS n FROM t JOIN u ON u.k = t.k"
        " GROUP BY t.k, upper(u.name)",
        mode="AUTO",
    )

    lab.run("INSERT INTO t VALUES (3, 3)", "UPDATE u SET name = 'uno'")
    for name in ("counts", "pairs", "sums"):
        lab.trickle.refresh_stream_table(name)
        lab.check(name)


def test_operator_of_the_users_own_is_used_or_refused_but_never_replaced(lab: Lab):
    lab.run(
        *T, "CREATE TABLE u (k int, name text)", "INSERT INTO u VALUES (1, 'one'), (3, 'three')"
    )
    lab.run(
        "CREATE FUNCTION same_parity(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE"
        " AS $$ SELECT $1 % 2 = $2 % 2 $$",
        "CREATE OPERATOR public.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = same_parity)",
        "CREATE OPERATOR public.<= (LEFTARG = int, RIGHTARG = int, FUNCTION = same_parity)",
    )
    lab.create("parity", "SELECT t.id, u.k FROM t JOIN u ON t.k === u.k", mode="AUTO")
    lab.create("odd", "SELECT t.id, u.k FROM t JOIN u ON t.k OPERATOR(public.<=) u.k", mode="AUTO")

    lab.run("INSERT INTO t VALUES (3, 3), (4, 4)", "DELETE FROM u WHERE k = 1")
    for name in ("parity", "odd"):
        lab.trickle.refresh_stream_table(name)
        lab.check(name)


def test_no_select_on_a_source(ordinary: Lab, admin: psycopg.Connection):
    admin.execute("CREATE TABLE secret (id int)")

    with pytest.raises(PrivilegeError) as caught:
        ordinary.trickle.create_stream_table("made", "SELECT id FROM secret")

    assert "GRANT" in caught.value.hint
    assert ordinary.leftovers() == []


def test_no_trigger_on_a_source(ordinary: Lab, admin: psycopg.Connection, role: str):
    admin.execute("CREATE TABLE theirs (id int)")
    admin.execute(f"GRANT SELECT ON theirs TO {role}".encode())
    with pytest.raises(PrivilegeError) as caught:
        ordinary.trickle.create_stream_table("made", "SELECT id FROM theirs")

    assert "GRANT TRIGGER" in caught.value.hint
    assert ordinary.leftovers() == []
    admin.execute(f"GRANT TRIGGER ON theirs TO {role}".encode())
    ordinary.create("made", "SELECT id FROM theirs")
    admin.execute("INSERT INTO theirs VALUES (1)")
    ordinary.window()


@pytest.mark.parametrize(
    ("granted", "target"),
    [
        ("SELECT", "shop.theirs"),
        ("SELECT (id)", "shop.theirs"),
        ("USAGE", "SCHEMA shop"),
    ],
)
def test_privilege_that_is_revoked_later_is_named(
    ordinary: Lab, admin: psycopg.Connection, role: str, granted: str, target: str
):
    admin.execute("CREATE SCHEMA shop")
    admin.execute("CREATE TABLE shop.theirs (id int, other int)")
    admin.execute(f"GRANT USAGE ON SCHEMA shop TO {role}".encode())
    read = granted if granted != "USAGE" else "SELECT"
    admin.execute(f"GRANT {read}, TRIGGER ON shop.theirs TO {role}".encode())
    ordinary.create("pairs", "SELECT a.id FROM shop.theirs AS a JOIN shop.theirs AS b USING (id)")

    admin.execute(f"REVOKE {granted} ON {target} FROM {role}".encode())
    admin.execute("INSERT INTO shop.theirs VALUES (1)")
    with pytest.raises(PrivilegeError) as caught:
        ordinary.trickle.refresh_stream_table("pairs", full=True)
    right = granted.partition(" ")[0]
    assert caught.value.hint == f'Let its owner run: GRANT {right} ON {target} TO "{role}";'

    admin.execute(f"GRANT {granted} ON {target} TO {role}".encode())
    ordinary.window()
    admin.execute("DROP SCHEMA shop CASCADE")


def test_row_security_that_hides_rows_is_refused(
    ordinary: Lab, admin: psycopg.Connection, role: str
):
    """The triggers would capture what the role may not read."""
    admin.execute("CREATE TABLE theirs (id int)")
    admin.execute(f"GRANT SELECT, INSERT, TRIGGER ON theirs TO {role}".encode())
    admin.execute("ALTER TABLE theirs ENABLE ROW LEVEL SECURITY")
    admin.execute("CREATE POLICY few ON theirs USING (id < 10) WITH CHECK (true)")
    with pytest.raises(UnsupportedSourceError, match="row security"):
        ordinary.trickle.create_stream_table("made", "SELECT id FROM theirs")
    assert ordinary.leftovers() == []

    admin.execute("ALTER TABLE theirs DISABLE ROW LEVEL SECURITY")
    ordinary.create("made", "SELECT id FROM theirs")
    ordinary.window("INSERT INTO theirs VALUES (1), (99)")
    admin.execute("ALTER TABLE theirs ENABLE ROW LEVEL SECURITY")
    admin.execute("INSERT INTO theirs VALUES (100)")
    with pytest.raises(UnsupportedSourceError, match="row security"):
        ordinary.trickle.refresh_stream_table("made")
    assert ordinary.rows("SELECT id FROM made WHERE id = 100") == []

    admin.execute(f"ALTER ROLE {role} BYPASSRLS".encode())
    ordinary.window(action="REINITIALIZE")
    ordinary.window("INSERT INTO theirs VALUES (101)")


def test_no_create_on_the_schema(ordinary: Lab, admin: psycopg.Connection):
    ordinary.run(*T)
    admin.execute("CREATE SCHEMA closed")

    with pytest.raises(PrivilegeError) as caught:
        ordinary.trickle.create_stream_table("closed.made", "SELECT id FROM t")

    assert "closed" in f"{caught.value} {caught.value.detail}"
    assert ordinary.leftovers() == []


def test_role_that_may_use_everything_but_owns_nothing(
    ordinary: Lab, database: str, other_role: str, admin: psycopg.Connection
):
    for schema in ("pgtrickle", "pgtrickle_changes", "pgtrickle_state"):
        admin.execute(f"GRANT ALL ON SCHEMA {schema} TO {other_role}".encode())
        admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {other_role}".encode())
        admin.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {other_role}".encode())

    with pytest.raises(ForeignCatalogError) as caught:
        pgtrickle.connect(make_conninfo(database, user=other_role), engine=Borrowed(DuckDbEngine()))

    assert "REVOKE CREATE" in caught.value.hint


def test_only_the_owner_may_touch_a_stream_table(
    ordinary: Lab, other_role: str, admin: psycopg.Connection
):
    ordinary.run(*T)
    ordinary.create("counts", COUNTS)
    give = "UPDATE pgtrickle.pgt_stream_tables SET owner_role = %s"
    admin.execute(give, [other_role])

    for act in (
        ordinary.trickle.refresh_stream_table,
        ordinary.trickle.drop_stream_table,
        ordinary.trickle.alter_stream_table,
        ordinary.trickle.verify_stream_table,
    ):
        with pytest.raises(NotOwnerError) as caught:
            act("counts")
        assert "Connect as" in caught.value.hint
    admin.execute(give, [ordinary.connection.info.user])
    ordinary.window("INSERT INTO t VALUES (3, 3)")


def test_role_without_any_right_on_the_catalog(ordinary: Lab, database: str, other_role: str):
    with pytest.raises(PrivilegeError):
        pgtrickle.connect(make_conninfo(database, user=other_role), engine=Borrowed(DuckDbEngine()))


def test_view_is_read_with_the_rights_of_its_owner_when_a_group_is_verified(
    ordinary: Lab, role: str, admin: psycopg.Connection
):
    ordinary.run(*T)
    ordinary.create("counts", COUNTS)
    for statement in (
        "CREATE TABLE secret (k int PRIMARY KEY, name text)",
        "INSERT INTO secret VALUES (1, 'a')",
        "CREATE VIEW shown AS SELECT k, n, name FROM counts JOIN secret USING (k)",
        f"GRANT SELECT ON shown TO {role}",
        f"GRANT TRIGGER ON secret TO {role}",
    ):
        admin.execute(statement.encode())
    ordinary.create("named", "SELECT name, n, id FROM shown JOIN t USING (k)", "AUTO")
    ordinary.run("INSERT INTO t VALUES (3, 1)")

    verified = ordinary.trickle.verify_stream_table("named")

    assert (verified.ok, verified.rows) == (True, 3)
    assert ordinary.rows("TABLE named") == [("a", 3, 1), ("a", 3, 2), ("a", 3, 3)]
