"""``pgtrickle run`` with Spark: it keeps a graph fresh, also when Spark's JVM is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

import pgtrickle
from pgtrickle.cli.daemon.leave_on_time import LEFT_BEHIND
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.daemons import Daemon, await_

_SECONDS = 120  # a JVM starts, on a machine that others use too


def test_daemon_goes_on_after_the_jvm_was_killed(
    database: str, start: Callable[..., Daemon]
) -> None:
    with (
        psycopg.connect(database, autocommit=True) as user,
        pgtrickle.connect(database, engine=DuckDbEngine()) as trickle,
    ):
        user.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
        for name, query in {
            "sums": "SELECT a % 2 AS odd, sum(a) AS total FROM t GROUP BY a % 2",
            "counts": "SELECT a % 2 AS odd, count(*) AS n FROM t GROUP BY a % 2",
            "means": "SELECT s.odd, s.total, c.n FROM sums AS s JOIN counts AS c ON c.odd = s.odd",
        }.items():
            trickle.create_stream_table(name, query, "1s", "DIFFERENTIAL")

        def visible(number: int) -> bool:
            [(found,)] = user.execute("SELECT COALESCE(sum(n), 0) FROM means").fetchall()
            return bool(found == number)

        daemon = start(database, PGTRICKLE_SHUTDOWN_SECONDS="120")
        user.execute("INSERT INTO t VALUES (1, 1)")
        await_(lambda: visible(1), _SECONDS)
        for number in (2, 3):
            [jvm] = daemon.children()
            os.kill(jvm, signal.SIGKILL)

            user.execute("INSERT INTO t VALUES (%s, %s)", [number, number])

            await_(partial(visible, number), _SECONDS)
            assert jvm not in daemon.children()

        # It is told to end while a refresh is on its way: that one is finished.
        user.execute("INSERT INTO t SELECT i, i FROM generate_series(4, 20000) AS i")
        await_(lambda: user.execute("TABLE pgtrickle.pgt_leases").fetchall() or visible(20000), 60)
        assert daemon.stop() == 0
        assert user.execute("TABLE pgtrickle.pgt_leases").fetchall() == []
        [(left,)] = user.execute(
            "SELECT count(*) FROM pgtrickle.pgt_refresh_history WHERE end_time IS NULL"
        ).fetchall()
        assert left == 0
        for name in ("sums", "counts", "means"):
            trickle.refresh_stream_table(name)
        assert visible(20000)
        assert [trickle.verify_stream_table(name).ok for name in ("sums", "counts", "means")] == [
            True
        ] * 3
        assert {one.status.value for one in trickle.list_stream_tables()} == {"ACTIVE"}


def test_daemon_whose_jvm_stands_still_ends_on_time_and_leaves_nothing(
    database: str, start: Callable[..., Daemon], tmp_path: Path
) -> None:
    seconds = 12.0
    with (
        psycopg.connect(database, autocommit=True) as user,
        pgtrickle.connect(database, engine=DuckDbEngine()) as trickle,
    ):
        user.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
        query = "SELECT a % 2 AS odd, sum(a) AS total FROM t GROUP BY a % 2"
        trickle.create_stream_table("sums", query, "1s", "DIFFERENTIAL")
        aside = tmp_path / "aside"
        aside.mkdir()
        settings = {"PGTRICKLE_SHUTDOWN_SECONDS": str(seconds), "TMPDIR": str(aside)}
        daemon = start(database, PGTRICKLE_SPARK_CLASS_ARCHIVE="off", **settings)
        user.execute("INSERT INTO t VALUES (1, 1)")
        await_(lambda: user.execute("TABLE sums").fetchall(), _SECONDS)
        [jvm] = daemon.children()
        os.kill(jvm, signal.SIGSTOP)
        user.execute("INSERT INTO t VALUES (2, 2)")
        await_(lambda: user.execute("TABLE pgtrickle.pgt_leases").fetchall())
        signalled = time.monotonic()

        assert daemon.stop() in (0, LEFT_BEHIND)

        assert time.monotonic() - signalled < seconds + 20  # on a machine that others use too
        assert not Path(f"/proc/{jvm}").exists()
        assert list(aside.iterdir()) == []
        # A process that takes over goes on where it stopped.
        held = "SELECT FROM pgtrickle.pgt_leases WHERE expires_at > clock_timestamp()"
        await_(lambda: not user.execute(held).fetchall(), _SECONDS)
        trickle.refresh_stream_table("sums")
        assert trickle.verify_stream_table("sums").ok
