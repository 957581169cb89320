"""What people without rights can see of captured rows, and what they cannot hide (P53)."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from tests.catalog.databases import SHADOWS, ordinary_role
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n, max(id) AS last FROM t GROUP BY k"
OURS = """
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class AS c
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'v', 'S') AND n.nspname LIKE 'pgtrickle%'
"""


@pytest.fixture
def generous(database: str, duckdb_engine: DuckDbEngine) -> Iterator[Lab]:
    """Work in a database whose owner grants everyone everything on new tables."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC")
        connection.execute("ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO PUBLIC")
        with pgtrickle.connect(database, engine=Borrowed(duckdb_engine)) as trickle:
            lab = Lab(trickle, connection)
            lab.run(*T)
            lab.create("counts", COUNTS)
            lab.create("copy", "SELECT id, k FROM t")
            yield lab


@pytest.fixture
def writer(generous: Lab) -> Iterator[psycopg.Connection]:
    """Connect as a role that may write to the source and nothing else."""
    dsn = generous.trickle.dsn
    with (
        ordinary_role(dsn) as role,
        psycopg.connect(make_conninfo(dsn, user=role), autocommit=True) as connection,
    ):
        yield connection


def test_p53_nobody_else_reads_what_was_captured(generous: Lab, writer: psycopg.Connection):
    generous.run("REVOKE ALL ON t FROM PUBLIC", "INSERT INTO t VALUES (3, 3)")
    relations = [name for (name,) in generous.rows(OURS)]
    assert len(relations) > 10

    for relation in relations:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            writer.execute(f"SELECT * FROM {relation}".encode())


def test_p53_capture_functions_cannot_be_called_or_reused(
    generous: Lab, writer: psycopg.Connection
):
    [relid] = generous.rows("SELECT 't'::regclass::oid::int8")
    writer.execute("CREATE TEMPORARY TABLE own (id int, k int)")

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        writer.execute(
            "CREATE TRIGGER stolen AFTER INSERT ON own REFERENCING NEW TABLE AS __new"
            f" FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_{relid[0]}_insert()"
        )


def test_p53_writer_cannot_hide_that_capture_was_off(generous: Lab, writer: psycopg.Connection):
    [(relid,)] = generous.rows("SELECT 't'::regclass::oid::int8")
    with writer.transaction():
        writer.execute("SET pg_trickle.enabled = off")
        writer.execute(
            f"SELECT set_config('pg_trickle.gap_{relid}', pg_current_xact_id()::text, false)"
        )
        writer.execute("INSERT INTO t VALUES (3, 3)")
        writer.execute("INSERT INTO t VALUES (4, 3)")

    assert generous.value("SELECT count(*) FROM pgtrickle.pgt_capture_gaps") == 1
    generous.refresh("counts", "REINITIALIZE")
    generous.refresh("copy", "REINITIALIZE")


def test_p53_shadows_do_not_reach_the_switch(generous: Lab, writer: psycopg.Connection):
    generous.run(SHADOWS, "RESET search_path")
    writer.execute("SET search_path = hostile, pg_catalog, public")
    writer.execute("SET pg_trickle.enabled = off")
    writer.execute("UPDATE t SET k = 9 WHERE id = 1")
    writer.execute("RESET pg_trickle.enabled")
    writer.execute("UPDATE t SET k = 8 WHERE id = 2")

    generous.refresh("counts", "REINITIALIZE")
    generous.refresh("copy", "REINITIALIZE")
