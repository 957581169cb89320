"""Event triggers notice a change of a source at once, or refuse it if they are told to (P45)."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from tests.catalog.databases import ordinary_role
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.hearing import PATIENCE
from tests.labs.lab import Lab

SOURCES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2'",
    "CREATE TABLE t (id int PRIMARY KEY, k int, m mood, spare int)",
    "CREATE VIEW v AS SELECT id, k, m, twice(k) AS t FROM t WHERE k > 0",
    "CREATE TABLE p (id int) PARTITION BY LIST (id)",
    "CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0)",
    "INSERT INTO t VALUES (1, 1, 'ok'), (2, 1, 'sad')",
)
RELEVANT = (
    "ALTER TABLE t DROP COLUMN m CASCADE",
    "ALTER TABLE t RENAME COLUMN k TO kk",
    "ALTER TYPE mood ADD VALUE 'glad'",
    "CREATE OR REPLACE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 3'",
    "CREATE OR REPLACE VIEW v AS SELECT id, k, m, twice(k) AS t FROM t",
    "DROP VIEW v",
    "DROP TABLE t CASCADE",
    "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
    "DROP TABLE p0",
    "DROP FUNCTION twice(int) CASCADE",
    "DROP TYPE mood CASCADE",
)
IRRELEVANT = (
    "ALTER TABLE t DROP COLUMN spare",
    "ALTER TABLE t ADD COLUMN more int",
    "CREATE TABLE u (id int)",
    "CREATE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE INDEX ON t (k)",
    "CREATE POLICY few ON t",
    "DROP TYPE IF EXISTS nothing",
)


@pytest.fixture
def watched(lab: Lab) -> Iterator[Lab]:
    lab.run(*SOURCES)
    lab.create("seen", "SELECT v.id, v.k, v.m, v.t FROM v")
    lab.create("parts", "SELECT id FROM p")
    yield lab
    lab.run("RESET pg_trickle.block_source_ddl")


def marked(lab: Lab) -> bool:
    return any(one.needs_reinit for one in lab.trickle.list_stream_tables())


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TEMPORARY TABLE scratch (id int)",
        "CREATE TEMPORARY TABLE scratch (id int); DROP TABLE scratch",
        "CREATE TABLE u (id int)",
        "CREATE INDEX ON t (k)",
    ],
)
def test_commands_elsewhere_describe_no_source(watched: Lab, statement: str):
    with watched.connection.transaction():
        watched.run("SET LOCAL track_functions = 'all'", "DROP TABLE p0")
        described = (
            "SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'describe_source'"
        )
        [(before,)] = watched.rows(described)

        watched.run(statement)

        assert watched.rows(described) == [(before,)]


@pytest.mark.parametrize("statement", RELEVANT)
def test_change_is_noted_at_once(watched: Lab, statement: str):
    watched.run("LISTEN pg_trickle_alert", statement)

    told = [one.payload for one in watched.connection.notifies(timeout=PATIENCE, stop_after=1)]

    assert marked(watched)
    assert ["reinitialize_needed" in one for one in told] == [True]
    watched.run("UNLISTEN *")


@pytest.mark.parametrize("statement", IRRELEVANT)
def test_other_changes_are_let_pass(watched: Lab, statement: str):
    watched.run("SET pg_trickle.block_source_ddl = on", statement)

    assert not marked(watched)


@pytest.mark.parametrize("statement", RELEVANT)
def test_change_is_refused_where_that_is_wanted(watched: Lab, statement: str):
    watched.run("SET pg_trickle.block_source_ddl = on")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist) as caught:
        watched.run(statement)

    assert "the stream table public." in str(caught.value)
    assert "block_source_ddl" in (caught.value.diag.message_hint or "")
    watched.run("INSERT INTO t VALUES (3, 3, 'ok')")
    watched.refresh("seen")
    watched.run("SET pg_trickle.block_source_ddl = off", statement)


def test_dropping_stream_tables_is_never_blocked(watched: Lab):
    alter = f"ALTER DATABASE {watched.connection.info.dbname}"
    watched.run(f"{alter} SET pg_trickle.block_source_ddl = on")
    try:
        with pgtrickle.connect(watched.trickle.dsn, engine=Borrowed(DuckDbEngine())) as trickle:
            trickle.drop_stream_table("seen")
            trickle.drop_stream_table("parts")
    finally:
        watched.run(f"{alter} RESET ALL")
    assert watched.leftovers() == []


def test_ordinary_role_goes_without(empty_database: str, duckdb_engine: DuckDbEngine):
    with (
        psycopg.connect(empty_database, autocommit=True) as admin,
        ordinary_role(empty_database) as role,
    ):
        admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {role}".encode())
        admin.execute(f"GRANT CREATE ON SCHEMA public TO {role}".encode())
        dsn = make_conninfo(empty_database, user=role)
        with (
            pgtrickle.connect(dsn, engine=Borrowed(duckdb_engine), init=True) as trickle,
            psycopg.connect(dsn, autocommit=True) as connection,
        ):
            lab = Lab(trickle, connection)
            lab.run("CREATE TABLE t (id int, k int)", "INSERT INTO t VALUES (1, 1)")
            lab.create("made", "SELECT id, k FROM t")
            lab.run("ALTER TABLE t ALTER COLUMN k TYPE int USING k + 1")

            assert not marked(lab)
            lab.window(action="REINITIALIZE")
            assert lab.rows("SELECT evtname FROM pg_event_trigger") == []
