"""Through PgBouncer in transaction mode: sessions and the daemon share few connections."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import pgtrickle
from pgtrickle.client.commands import beside_daemon
from pgtrickle.session import BEGIN_SNAPSHOT
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.postgres import enterable_directory, plain_server
from tests.labs.lab import Lab
from tests.service.requests.test_access import _serving

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
BINARIES = Path("/usr/lib/postgresql/15/bin")  # Debian's; a server that trusts any account

pytestmark = pytest.mark.skipif(
    PGBOUNCER is None or not BINARIES.exists(), reason="PgBouncer or PostgreSQL is not installed"
)


@pytest.fixture(autouse=True)
def forget_requests() -> None:
    """Use a server of one's own."""


@pytest.fixture(scope="module")
def pooled() -> Iterator[str]:
    """Start a pooler with six connections to a server; yield how to reach it."""
    with _pooler("transaction", 6) as dsn:
        yield dsn


@pytest.fixture
def in_sessions() -> Iterator[str]:
    """Start a pooler whose clients have connections of their own; yield how to reach it."""
    with _pooler("session", 40) as dsn:
        yield dsn


@contextmanager
def _pooler(mode: str, size: int) -> Iterator[str]:
    with plain_server(BINARIES) as server, enterable_directory() as directory:
        directory.chmod(0o777)  # for its socket, whoever it runs as
        file = directory / "pgbouncer.ini"
        host = conninfo_to_dict(server)["host"]
        file.write_text(
            f"[databases]\n* = host={host} port=5432 user=owner\n"
            f"[pgbouncer]\npool_mode = {mode}\nauth_type = any\n"
            f"listen_addr =\nlisten_port = 6432\nunix_socket_dir = {directory}\n"
            f"default_pool_size = {size}\nmax_client_conn = 200\n"
        )
        file.chmod(0o644)
        process = subprocess.Popen(
            [str(PGBOUNCER), str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user="nobody" if os.geteuid() == 0 else None,
            cwd="/",
        )
        try:
            dsn = make_conninfo(host=str(directory), port=6432, user="owner", dbname="postgres")
            _await(dsn)
            yield dsn
        finally:
            process.terminate()
            process.wait()


def _await(dsn: str) -> None:
    for _ in range(1000):
        try:
            psycopg.connect(dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the pooler did not start")


def test_daemon_and_callers_work_through_the_pooler(pooled: str, duckdb_engine: DuckDbEngine):
    with (
        pgtrickle.connect(pooled, engine=Borrowed(duckdb_engine), init=True) as trickle,
        _serving(trickle),
        psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection,
    ):
        lab = Lab(trickle, connection)
        lab.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
        query = "SELECT k, count(*) AS n FROM t GROUP BY k"
        lab.queries["counts"] = query
        lab.run(f"CALL pgtrickle.create_stream_table('counts', '{query}')")
        for number in range(3, 8):
            lab.run(f"INSERT INTO t VALUES ({number}, {number})")
            done = lab.value("CALL pgtrickle.refresh_stream_table('counts')")
            assert done["action"] == "DIFFERENTIAL"
            lab.check("counts")
        lab.run("CALL pgtrickle.drop_stream_table('counts')")
        assert lab.leftovers() == []


def test_notices_are_heard_through_a_pooler_of_sessions(
    in_sessions: str, duckdb_engine: DuckDbEngine
):
    with (
        pgtrickle.connect(in_sessions, engine=Borrowed(duckdb_engine), init=True) as trickle,
        _serving(trickle),
        psycopg.connect(in_sessions, autocommit=True) as connection,
    ):
        lab = Lab(trickle, connection)
        lab.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
        query = "SELECT k, count(*) AS n FROM t GROUP BY k"
        lab.queries["counts"] = query
        lab.run(f"CALL pgtrickle.create_stream_table('counts', '{query}')")
        lab.run("LISTEN pg_trickle_refresh", "INSERT INTO t VALUES (3, 2)")
        done = lab.value("CALL pgtrickle.refresh_stream_table('counts')")
        assert done["action"] == "DIFFERENTIAL"
        [notice] = connection.notifies(timeout=30, stop_after=1)
        assert "public.counts" in notice.payload
        lab.check("counts")


def test_client_asks_through_the_pooler(pooled: str, duckdb_engine: DuckDbEngine):
    told: list[str] = []
    with (
        pgtrickle.connect(pooled, engine=Borrowed(duckdb_engine)) as trickle,
        _serving(trickle),
        psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection,
    ):
        connection.execute("CREATE TABLE w (id int)")
        client = beside_daemon(trickle, told.append)
        client.create_stream_table("asked", "SELECT id FROM w")
        connection.execute("INSERT INTO w VALUES (1)")
        report = client.refresh_stream_table("asked")
        client.drop_stream_table("asked")

    assert (report.action.value, report.rows_inserted) == ("DIFFERENTIAL", 1)
    assert len(told) == 3


def test_many_callers_share_few_connections(pooled: str, duckdb_engine: DuckDbEngine):
    """Thirty sessions ask at once; the pooler has six connections for them and the daemon."""
    with (
        pgtrickle.connect(pooled, engine=Borrowed(duckdb_engine), init=True) as trickle,
        _serving(trickle),
        psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection,
    ):
        connection.execute("DELETE FROM pgtrickle.pgt_requests")
        connection.execute("CREATE TABLE u (id int)")
        connection.execute("CALL pgtrickle.create_stream_table('copy', 'SELECT id FROM u')")
        ask = """SELECT pgtrickle.submit_request('refresh_stream_table', '{"name": "copy"}')"""
        for _ in range(30):
            with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as one:
                one.execute(ask.encode())
        deadline = time.monotonic() + 60
        count = "SELECT count(*) FROM pgtrickle.requests WHERE status = 'COMPLETED'"
        while connection.execute(count.encode()).fetchall() != [(31,)]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        connection.execute("CALL pgtrickle.drop_stream_table('copy')")


def test_own_path_is_set_and_does_not_stay_behind(pooled: str, duckdb_engine: DuckDbEngine):
    ours = [("pg_catalog, pg_temp",)]
    with (
        pgtrickle.connect(pooled, engine=Borrowed(duckdb_engine), init=True) as trickle,
        trickle._runtime.connection() as session,
        psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection,
    ):
        shown = [session.execute("SHOW search_path").fetchall() for _ in range(10)]
        with session.transaction(), session.transaction():
            shown.append(session.execute("SHOW search_path").fetchall())
        session.execute(BEGIN_SNAPSHOT)
        shown.append(session.execute("SHOW search_path").fetchall())
        session.rollback()
        with session.cursor().copy(
            "COPY (SELECT current_setting('search_path')) TO STDOUT"
        ) as rows:
            shown.append(list(rows.rows()))
        assert shown == [ours] * 13

        lab = Lab(trickle, connection)
        lab.run("CREATE TABLE v (id int)", "INSERT INTO v VALUES (1), (1)")
        lab.create("copied", "SELECT id FROM v")
        lab.window("INSERT INTO v VALUES (2)")
        lab.trickle.drop_stream_table("copied")

        assert {lab.value("SHOW search_path") for _ in range(50)} == {'"$user", public'}


def test_consumers_share_few_connections_and_keep_the_order(
    pooled: str, duckdb_engine: DuckDbEngine
):
    """Ten consumers poll and commit in turns; each of their statements may get another session."""
    with (
        pgtrickle.connect(pooled, engine=Borrowed(duckdb_engine), init=True) as trickle,
        ExitStack() as stack,
    ):
        sessions = [
            stack.enter_context(psycopg.connect(pooled, autocommit=True, prepare_threshold=None))
            for _ in range(10)
        ]
        sessions[0].execute("CREATE TABLE s (id int)")
        trickle.create_stream_table("streamed", "SELECT id FROM s")
        trickle.outbox.enable_outbox("streamed")
        trickle.outbox.create_consumer_group("pooled", "streamed")
        for number in range(6):
            sessions[0].execute("INSERT INTO s VALUES (%s)", [number])
            trickle.refresh_stream_table("streamed")
        order = []
        for turn in range(30):
            number = turn * 7 % 10
            poll = "SELECT outbox_id FROM pgtrickle.poll_outbox('pooled', %s, 2)"
            found = sessions[number].execute(poll, [f"c{number}"]).fetchall()
            for (outbox_id,) in found:
                commit = "SELECT pgtrickle.commit_offset('pooled', %s, %s)"
                sessions[number].execute(commit, [f"c{number}", outbox_id])
                order.append(outbox_id)
        trickle.drop_stream_table("streamed")

    assert order == [1, 2, 3, 4, 5, 6]
