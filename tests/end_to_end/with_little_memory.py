"""Refreshes whose data exceed a small driver, as a process of its own; prints one JSON document."""

from __future__ import annotations

import json
import sys

import psycopg

import pgtrickle
from pgtrickle.errors import MemoryLimitError
from pgtrickle.settings import Settings

_TABLES = """
    CREATE TABLE few (id integer);
    INSERT INTO few SELECT generate_series(1, 400);
    CREATE TABLE wide (id integer PRIMARY KEY, note text);
    INSERT INTO wide VALUES (0, 'first');
"""
_HEAP_FULL = """
    INSERT INTO wide SELECT i, repeat(md5(i::text), 64) FROM generate_series(1, 200000) AS i
"""


def main(dsn: str) -> None:
    """Let a result exceed the driver's share, then let the inputs exceed its heap."""
    # Every input counts as small, so all of it passes through the driver.
    settings = Settings(
        large_read_bytes=2**40, driver_result_bytes=2**20, spark_driver_memory="512m"
    )
    found: dict[str, object] = {}
    with (
        pgtrickle.connect(dsn, settings=settings) as trickle,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(_TABLES)
        trickle.create_stream_table("pairs", "SELECT a.id, b.id AS other FROM few a, few b")
        found["pairs"] = trickle.verify_stream_table("pairs").rows
        trickle.create_stream_table("notes", "SELECT id, note FROM wide", refresh_mode="FULL")
        connection.execute(_HEAP_FULL)
        try:
            trickle.refresh_stream_table("notes")
        except MemoryLimitError as error:
            found |= {"code": error.code, "hint": error.hint}
        found["stored"] = connection.execute("SELECT count(*) FROM notes").fetchall()[0][0]
        found["left"] = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relname LIKE 'staged%'"
        ).fetchall()[0][0]
        connection.execute("DELETE FROM wide WHERE id > 10")
        trickle.refresh_stream_table("notes")
        found["later"] = trickle.verify_stream_table("notes").rows
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
