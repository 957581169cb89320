"""A second database with the same lake, as after a restored dump, and how they are kept apart."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import pgtrickle
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.lake.shore import SOURCE, SUMS, open_shore

_AT_ONCE = timedelta(0)


def test_database_that_gives_up_its_copies_leaves_the_files_of_the_other(
    database: str, other_database: str, duckdb_engine: DuckDbEngine, tmp_path: Path
):
    with open_shore(database, duckdb_engine, tmp_path) as shore:
        shore.run(*SOURCE)
        shore.create("sums", SUMS)
    names = [str(conninfo_to_dict(one)["dbname"]) for one in (other_database, database)]
    with psycopg.connect(make_conninfo(database, dbname="template1"), autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(names[0])))
        copied = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*map(sql.Identifier, names))
        admin.execute(copied)

    settings = load_settings({}, dsn=database, ducklake_catalog_schema="lake")
    with (
        pgtrickle.connect(database, engine=Borrowed(duckdb_engine), settings=settings) as original,
        pgtrickle.connect(other_database, engine=Borrowed(duckdb_engine)) as copy,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        connection.execute("UPDATE t SET v = v + 1")
        original.refresh_stream_table("sums")
        files = sorted(tmp_path.rglob("*.parquet"))
        copy.alter_stream_table("sums", sink="none")
        copy.refresh_stream_table("sums")
        assert copy.verify_stream_table("sums").ok
        copy.lake.maintain_lake(_AT_ONCE)

        assert set(files) <= set(tmp_path.rglob("*.parquet"))
        past = original.lake.show_as_of("sums", "9999-12-31")
        held = connection.execute("TABLE sums").fetchall()
        assert sorted(tuple(row.values()) for row in past.rows) == sorted(held)
