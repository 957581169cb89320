"""A server that was gone for a while and came back."""

from __future__ import annotations

import threading
import time

import psycopg

import pgtrickle
from pgtrickle.scheduler.loop import Loop
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.restartable import OwnServer
from tests.scheduler.shop import Watched

_DOWN = 15.0  # seconds: long enough for pauses to grow
_RESUMED = 10.0  # seconds, as promised


def test_scheduler_goes_on_soon_after_the_server_came_back(
    own_server: OwnServer, duckdb_engine: DuckDbEngine
) -> None:
    with pgtrickle.connect(own_server.dsn, engine=Borrowed(duckdb_engine), init=True) as trickle:
        with psycopg.connect(own_server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a int)")
        trickle.create_stream_table("counted", "SELECT count(*) AS n FROM t", schedule="1s")
        watched, stop = Watched(), threading.Event()
        thread = threading.Thread(target=Loop(trickle.daemon, watched).run, args=(stop,))
        thread.start()
        try:
            own_server.crash()
            time.sleep(_DOWN)
            own_server.start()
            back = time.monotonic()
            with psycopg.connect(own_server.dsn, autocommit=True) as connection:
                connection.execute("INSERT INTO t VALUES (1)")
            while not watched.refreshed_names:
                assert time.monotonic() < back + _RESUMED
                time.sleep(0.1)
        finally:
            stop.set()
            thread.join()
    assert {code for _, code, _ in watched.failures} == {"ST401"}
