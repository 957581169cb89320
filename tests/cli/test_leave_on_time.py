"""``pgtrickle run`` ends within its time after a signal, whatever hangs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import psycopg
import pytest

import pgtrickle
from pgtrickle.cli.daemon.leave_on_time import LEFT_BEHIND
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.daemons import Daemon, await_
from tests.fixtures.restartable import OwnServer

_SECONDS = 4.0
_SLACK = 20.0  # on a machine that others use too


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_server_that_does_not_answer_holds_nobody_up(
    own_server: OwnServer, start: Callable[..., Daemon], number: signal.Signals
) -> None:
    pgtrickle.connect(own_server.dsn, init=True).close()
    daemon = start(own_server.dsn, PGTRICKLE_SHUTDOWN_SECONDS=str(_SECONDS))
    await_(lambda: "keeping stream tables fresh; Ctrl-C ends" in daemon.log())
    with own_server.frozen():
        time.sleep(2)  # so that it waits for an answer
        signalled = time.monotonic()

        daemon.process.send_signal(number)

        assert daemon.process.wait(timeout=60) == LEFT_BEHIND
    assert time.monotonic() - signalled < _SECONDS + _SLACK
    # Another one takes over, and finds nothing held.
    with psycopg.connect(own_server.dsn, autocommit=True) as user:
        await_(lambda: user.execute("SELECT pgtrickle.is_served()").fetchall() == [(False,)])
        leases = user.execute("TABLE pgtrickle.pgt_leases").fetchall()
    assert leases == []


def test_server_that_hangs_while_it_is_connected_to_holds_nobody_up(
    own_server: OwnServer, start: Callable[..., Daemon]
) -> None:
    with own_server.frozen():
        daemon = start(own_server.dsn, PGTRICKLE_SHUTDOWN_SECONDS=str(_SECONDS))
        time.sleep(3)

        daemon.process.send_signal(signal.SIGTERM)

        assert daemon.process.wait(timeout=60) in (LEFT_BEHIND, -signal.SIGTERM, 0, 1)


def test_connections_notice_a_server_that_is_gone(database: str) -> None:
    with pgtrickle.connect(database, engine=DuckDbEngine()) as trickle:
        with trickle._runtime.connection() as connection:
            parameters = connection.info.get_parameters()
        reads = trickle._runtime.reads()._dsn

    assert parameters["tcp_user_timeout"] == "60000"
    assert parameters["keepalives_idle"] == "30"
    assert "tcp_user_timeout=60000" in reads
