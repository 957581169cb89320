"""Several processes and one server: the first starts it, the last stops it."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict

import psycopg
import pytest

from pgtrickle.embedded.processes import started
from pgtrickle.embedded.server import start_embedded
from pgtrickle.embedded.users import User
from tests.embedded.companions import companion


def test_second_process_joins_the_same_server(home):
    with start_embedded(home) as server, companion(home) as (_, seen):
        assert seen == server.pid


def test_server_outlives_the_process_that_started_it(home):
    with companion(home) as (_, first_seen):
        server = start_embedded(home)

    with psycopg.connect(server.dsn) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert server.pid == first_seen
    server.stop()
    assert started(server.pid) is None


def test_processes_that_start_at_once_share_one_server(home):
    with ExitStack() as running, ThreadPoolExecutor() as pool:
        joins = [pool.submit(running.enter_context, companion(home)) for _ in range(4)]
        seen = {join.result()[1] for join in joins}

    assert len(seen) == 1
    assert started(seen.pop()) is None


def test_two_uses_in_one_process_count_twice(home):
    first, second = start_embedded(home), start_embedded(home)

    first.stop()
    assert started(second.pid)
    second.stop()

    assert started(second.pid) is None


def test_killed_process_does_not_keep_the_server(home):
    with companion(home) as (process, _):
        server = start_embedded(home)
        process.send_signal(signal.SIGKILL)
    assert started(server.pid)

    server.stop()

    assert started(server.pid) is None


def test_server_of_a_killed_process_is_found_again(home):
    with companion(home) as (process, seen):
        process.send_signal(signal.SIGKILL)

    with start_embedded(home) as server:
        assert server.pid == seen

    assert started(seen) is None


def test_recycled_process_id_is_not_taken_for_a_user(home):
    server = start_embedded(home)
    users = json.loads((home / "users.json").read_text())
    stranger = User(pid=os.getppid(), started="another boot:1", token="stranger")  # noqa: S106
    (home / "users.json").write_text(json.dumps([*users, asdict(stranger)]))

    server.stop()

    assert not stranger.alive
    assert started(server.pid) is None


# Newer Pythons warn of threads at a fork; the child here does nothing that could need one.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_child_does_not_leave_for_its_parent(home):
    with start_embedded(home) as server:
        child = os.fork()
        if child == 0:
            server.stop()
            os._exit(0)
        os.waitpid(child, 0)

        assert started(server.pid)
