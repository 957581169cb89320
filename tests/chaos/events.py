"""What happens to the bank: daemons, JVMs, backends and the server itself die at random moments."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psycopg

from tests.fixtures.restartable import OwnServer

_SOURCE = Path(__file__).parents[2] / "src"
_KILL_BACKEND = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()
       AND backend_type = 'client backend' ORDER BY random() LIMIT 1
"""
_SPARK_IS_UP = re.compile(r"Spark is up\b.*\bseconds=([0-9.]+)")
_LEADER = "SELECT owner FROM pgtrickle.pgt_leader"
_PAUSE = 12.0  # seconds: longer than the lease of a leader
_LEASE_SECONDS = "5"


@dataclass(slots=True)
class Daemons:
    """Processes of ``pgtrickle run``, each started again as soon as it has ended."""

    dsn: str
    number: int
    log: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ended_by_themselves: list[int] = field(default_factory=list)  # exit codes

    def start(self) -> None:
        """Start what is missing."""
        for one in [one for one in self.running if one.poll() is not None]:
            if one.returncode != -signal.SIGKILL:
                self.ended_by_themselves.append(one.returncode)
            self.running.remove(one)
        while len(self.running) < self.number:
            self.running.append(self._start())

    def _start(self) -> subprocess.Popen[bytes]:
        program = "from pgtrickle.cli.main import app; app(['run', '--log-format', 'text'])"
        environment = {
            "PYTHONPATH": str(_SOURCE),
            "PGTRICKLE_DSN": self.dsn,
            "PGTRICKLE_LEASE_SECONDS": _LEASE_SECONDS,
        }
        with self.log.open("a") as output:
            return subprocess.Popen(
                [sys.executable, "-c", program],
                env=os.environ | environment,
                stdout=output,
                stderr=output,
            )

    def stop(self) -> list[int]:
        """Ask all to end, and return their exit codes."""
        for one in self.running:
            one.terminate()
        codes = []
        for one in self.running:
            try:
                codes.append(one.wait(timeout=60))
            except subprocess.TimeoutExpired:
                one.kill()
                codes.append(one.wait())
        return codes

    def kill(self) -> None:
        for one in self.running:
            one.kill()
            one.wait()

    def spark_starts(self) -> list[float]:
        """Return how many seconds each start of Spark took, as the daemons say."""
        return [float(took) for took in _SPARK_IS_UP.findall(self.log.read_text(errors="replace"))]

    def leader(self) -> subprocess.Popen[bytes]:
        """Return the one that leads, or any."""
        with suppress(psycopg.Error), psycopg.connect(self.dsn, connect_timeout=5) as connection:
            for (owner,) in connection.execute(_LEADER):
                for one in self.running:
                    if one.pid == int(str(owner).split(":")[-2]):
                        return one
        return self.running[0]


def kill_daemon(daemons: Daemons) -> None:
    """Kill the daemon that leads, and start another."""
    daemon = daemons.leader()
    daemon.kill()
    daemon.wait()
    daemons.start()


def kill_jvm(daemons: Daemons) -> None:
    """Kill the JVM of the daemon that leads, if it has one now."""
    for pid in _children(daemons.leader().pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_backend(daemons: Daemons) -> None:
    """End a connection of anybody."""
    with suppress(psycopg.Error), psycopg.connect(daemons.dsn, connect_timeout=5) as connection:
        connection.execute(_KILL_BACKEND)


def pause_daemon(daemons: Daemons) -> None:
    """Let the daemon that leads sleep until another has taken over, and wake it up again."""
    daemon = daemons.leader()
    daemon.send_signal(signal.SIGSTOP)
    time.sleep(_PAUSE)
    daemon.send_signal(signal.SIGCONT)


def restart_server(server: OwnServer, random: Random) -> Callable[[Daemons], None]:
    """Return what stops the server, politely or not, and starts it again."""

    def restart(_: Daemons) -> None:
        server.stop(random.choice(("fast", "immediate")))
        server.start()

    return restart


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(child) for path in tasks for child in path.read_text().split()]
    return []
