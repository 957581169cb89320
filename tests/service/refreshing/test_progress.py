"""What a first load tells while it runs, whoever computes it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import pgtrickle
from pgtrickle.client.trickle import Trickle
from pgtrickle.model.report import Progress
from pgtrickle.settings import Settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed

# Nobody passes before the gate is open, so the load takes until something has been told.
_TABLES = """
    CREATE TABLE t (id int PRIMARY KEY, k int);
    INSERT INTO t SELECT i, i % 3 FROM generate_series(1, 30) AS i;
    CREATE FUNCTION pass(number int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$
    BEGIN
        WHILE NOT pg_try_advisory_xact_lock_shared(4711) LOOP
            PERFORM pg_sleep(0.01);
        END LOOP;
        RETURN number;
    END $$
"""
_QUERY = "SELECT k, count(*) AS n, sum(pass(id)) AS s FROM t GROUP BY k"


@pytest.fixture
def gate(database: str) -> Iterator[psycopg.Connection]:
    """Yield the session that holds the gate shut."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(_TABLES)
        connection.execute("SELECT pg_advisory_lock(4711)")
        yield connection


@pytest.fixture
def quick_to_tell(database: str, duckdb_engine: DuckDbEngine) -> Iterator[Trickle]:
    settings = Settings(progress_seconds=0.05)
    with pgtrickle.connect(database, engine=Borrowed(duckdb_engine), settings=settings) as trickle:
        yield trickle


@pytest.mark.parametrize(
    ("engine", "doing"),
    [("spark", "group_1, reading"), ("postgres", "group_1, computing")],
)
def test_first_load_says_what_it_does(
    gate: psycopg.Connection, quick_to_tell: Trickle, engine: str, doing: str
) -> None:
    heard: list[Progress] = []
    seen: list[tuple[str, int]] = []

    def listen(progress: Progress) -> None:
        heard.append(progress)
        if progress.stage == doing and not seen:
            seen.extend(
                gate.execute("SELECT stage, rows_staged FROM pgtrickle.pgt_refresh_progress")
                .fetchall()
            )  # fmt: skip
            gate.execute("SELECT pg_advisory_unlock(4711)")

    quick_to_tell.on_progress(listen)
    quick_to_tell.create_stream_table("s", _QUERY, engine=engine)

    assert seen == [(doing, 0)]
    assert {one.stream_table for one in heard} == {"public.s"}
    assert quick_to_tell.verify_stream_table("s").ok
    assert gate.execute("SELECT count(*) FROM pgtrickle.pgt_refresh_progress").fetchone() == (0,)
