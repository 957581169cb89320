"""Crashes, and what they leave behind: the next start works and no committed row is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

import psycopg
import pytest

from pgtrickle.embedded.lock import exclusive_lock
from pgtrickle.embedded.processes import started
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import EmbeddedServerError
from tests.embedded.companions import companion
from tests.fixtures.daemons import await_


def commit_a_row(dsn):
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def read_the_row(dsn):
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT answer FROM kept").fetchone()


def spin_until_killed(connection):
    with pytest.raises(psycopg.OperationalError):
        connection.execute("DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$")


def is_busy(dsn, backend):
    with psycopg.connect(dsn) as connection:
        ask = "SELECT state = 'active' FROM pg_stat_activity WHERE pid = %s"
        return connection.execute(ask, [backend]).fetchone() == (True,)


def test_killed_postmaster_recovers_in_the_same_process(home):
    crashed = start_embedded(home)
    commit_a_row(crashed.dsn)
    os.kill(crashed.pid, signal.SIGKILL)

    with start_embedded(home) as server:
        assert read_the_row(server.dsn) == (42,)
        assert server.pid != crashed.pid
        crashed.stop()
        assert started(server.pid)


def test_killed_postmaster_recovers_while_its_parent_has_not_noticed(home):
    with companion(home) as (_, pid):
        os.kill(pid, signal.SIGKILL)

        with start_embedded(home) as server:
            assert server.pid != pid


def test_killed_postmaster_recovers_although_a_session_was_busy(home):
    crashed = start_embedded(home)
    busy = psycopg.connect(crashed.dsn)
    commit_a_row(crashed.dsn)
    background = threading.Thread(target=spin_until_killed, args=(busy,))
    background.start()
    backend = busy.info.backend_pid
    await_(lambda: is_busy(crashed.dsn, backend))
    os.kill(crashed.pid, signal.SIGKILL)
    # The orphan would spin for ever; PostgreSQL must refuse to start until it is gone.
    killer = threading.Timer(1.0, os.kill, (backend, signal.SIGKILL))
    killer.start()

    with start_embedded(home) as server:
        orphan_is_gone = started(backend) is None
        row = read_the_row(server.dsn)
    background.join()
    killer.join()
    busy.close()
    crashed.stop()

    assert orphan_is_gone
    assert row == (42,)


def test_pid_file_with_a_recycled_process_id_does_not_prevent_a_start(home):
    with start_embedded(home) as server:
        commit_a_row(server.dsn)
        pid_file = server.data_directory / "postmaster.pid"
        stale = pid_file.read_text().splitlines()
    with subprocess.Popen(["/bin/sleep", "60"]) as sleeper:
        pid_file.write_text("\n".join([str(sleeper.pid), *stale[1:], ""]))
        os.chown(pid_file, pid_file.parent.stat().st_uid, -1)

        with start_embedded(home) as server:
            assert read_the_row(server.dsn) == (42,)
        assert sleeper.poll() is None
        sleeper.kill()


def test_lock_file_left_behind_means_nothing(home):
    home.mkdir(mode=0o711)
    (home / "lock").write_text("left by a process that is gone")

    start_embedded(home).stop()


# Newer Pythons warn of threads at a fork; the child here does nothing that could need one.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_lock_held_by_a_killed_process_is_free(home):
    home.mkdir(mode=0o711)
    holder = os.fork()
    if holder == 0:
        with exclusive_lock(home / "lock"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(holder, 0)

    start_embedded(home).stop()


def test_lock_held_too_long_is_an_error(home):
    home.mkdir()

    with (
        exclusive_lock(home / "lock"),
        pytest.raises(EmbeddedServerError, match="could not lock"),
        exclusive_lock(home / "lock", patience_seconds=0.1),
    ):
        pass


def test_unfinished_initdb_is_thrown_away(home):
    draft = home / "data.draft-dead"
    draft.mkdir(parents=True)
    home.chmod(0o711)
    (draft / "PG_VERSION").write_text("18\n")

    start_embedded(home).stop()

    assert not draft.exists()


def test_unreadable_list_of_users_does_not_prevent_a_start(home):
    home.mkdir(mode=0o711)
    (home / "users.json").write_text("[{")

    start_embedded(home).stop()
