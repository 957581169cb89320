"""The server process: launch it, wait for it, find it again, stop it.

PostgreSQL's ``postmaster.pid`` is the truth about a running server: process id on the first
line, socket directory on the fifth, status on the eighth.  Every function expects the caller to
hold the lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pgtrickle.embedded.access import write_access_rules
from pgtrickle.embedded.binaries import Binaries
from pgtrickle.embedded.cluster import give_to_server
from pgtrickle.embedded.home import Base
from pgtrickle.embedded.own_files import open_own
from pgtrickle.embedded.processes import command_line, started
from pgtrickle.errors import EmbeddedServerError

PORT = 5432  # only names the socket file; nothing listens on the network

_START_SECONDS = 120.0  # crash recovery of a large write-ahead log takes a while
_FAST_STOP_SECONDS = 60.0
_IMMEDIATE_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.01
_LONGEST_SOCKET_PATH = 100  # the kernel's limit is 104 to 108 bytes
_LOG_KEPT_BYTES = 1_000_000
_LOG_TAIL_LINES = 15
_SOCKET_PREFIX = "pgtrickle-"

# Servers this process launched: they are its children, so it must collect them when they end.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server process, as its ``postmaster.pid`` describes it."""

    pid: int
    socket: Path
    status: str


def find_postmaster(base: Base) -> Postmaster | None:
    """Return the server that runs on the data directory, or None.

    The process must have been started with this very data directory: a process id that the
    kernel gave to another program since is not mistaken for the server.
    """
    described = _read_pid_file(base)
    if described is None:
        return None
    _collect(described.pid)
    arguments = " ".join(command_line(described.pid))
    if started(described.pid) is None or f" -D {base.data} " not in arguments:
        return None
    return described


def launch(base: Base, binaries: Binaries) -> Postmaster:
    """Start the server and wait until it accepts connections."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        log_offset = base.log.stat().st_size if base.log.exists() else 0
        process = _spawn(base, binaries)
        try:
            ready = _await_ready(base, process, deadline)
        except BaseException:
            # Also on Ctrl-C: no process has joined yet, so none would stop it.
            process.send_signal(signal.SIGQUIT)
            process.wait()
            raise
        if ready:
            return ready
        # Backends of a killed postmaster may still be leaving; PostgreSQL refuses until they have.
        leaving = "shared memory block" in _log_tail(base, log_offset)
        if not leaving or time.monotonic() > deadline:
            raise _failure(base, f"the embedded server ended with status {process.returncode}")
        time.sleep(0.2)


def await_status(base: Base, found: Postmaster) -> Postmaster | None:
    """Wait until a server found in any state is ready, or gone."""
    deadline = time.monotonic() + _START_SECONDS
    current: Postmaster | None = found
    while current and current.status != "ready":
        if time.monotonic() > deadline:
            raise _failure(base, f'the embedded server stays in status "{current.status}"')
        time.sleep(_POLL_SECONDS)
        current = find_postmaster(base)
    return current


def stop(base: Base) -> None:
    """Stop the server, if it runs: sessions are rolled back and closed, data is kept."""
    found = find_postmaster(base)
    if found is None:
        return
    stopped = _signal_and_wait(found.pid, signal.SIGINT, _FAST_STOP_SECONDS) or _signal_and_wait(
        found.pid, signal.SIGQUIT, _IMMEDIATE_STOP_SECONDS
    )
    if not stopped:
        raise _failure(base, "the embedded server does not stop")
    _remove_socket_directory(base, found.socket)


def _spawn(base: Base, binaries: Binaries) -> subprocess.Popen[bytes]:
    _disown_pid_file(base)
    access, identity = write_access_rules(base, major=binaries.major)
    command = [binaries.postgres, "-D", str(base.data)]
    for setting in (
        "listen_addresses=",
        f"port={PORT}",
        f"unix_socket_directories={_make_socket_directory(base)}",
        "unix_socket_permissions=0700",
        f"hba_file={access}",
        f"ident_file={identity}",
        "logging_collector=off",
        "log_destination=stderr",
    ):
        command += ["-c", setting]
    if base.log.exists() and base.log.stat().st_size > _LOG_KEPT_BYTES:
        base.log.replace(base.log.with_suffix(".log.1"))
    with os.fdopen(open_own(base.log, os.O_WRONLY | os.O_APPEND), "ab") as output:
        process = base.account.spawn(command, output=output)
    _children[process.pid] = process
    return process


def _await_ready(
    base: Base, process: subprocess.Popen[bytes], deadline: float
) -> Postmaster | None:
    while process.poll() is None:
        found = find_postmaster(base)
        if found and found.pid == process.pid and found.status == "ready":
            return found
        if time.monotonic() > deadline:
            raise _failure(base, f"the embedded server is not ready after {_START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
    _collect(process.pid)
    return None


def _signal_and_wait(pid: int, number: int, patience_seconds: float) -> bool:
    began = started(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    deadline = time.monotonic() + patience_seconds
    while began and started(pid) == began:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    _collect(pid)
    return True


def _collect(pid: int) -> None:
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]


def _read_pid_file(base: Base) -> Postmaster | None:
    try:
        lines = (base.data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return None
    # A server that has only begun to write the file is found at the next check.
    if len(lines) < 1 or not lines[0].strip().lstrip("-").isdigit():
        return None
    padded = [line.strip() for line in lines] + [""] * 8
    return Postmaster(abs(int(padded[0])), Path(padded[4]), padded[7])


def _disown_pid_file(base: Base) -> None:
    """Make PostgreSQL see a leftover pid file as stale, although its process id is taken again.

    PostgreSQL refuses to start while *any* process of its account, even a zombie, has the id in
    the file.  Removing the file would also remove the shared memory key in it, by which
    PostgreSQL notices that backends of the dead server still write.  So only the id changes: to
    ours, which PostgreSQL ignores because the parent of a server cannot be a server.
    """
    path = base.data / "postmaster.pid"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "r+") as file:
        _, newline, rest = file.read().partition("\n")
        file.seek(0)
        file.write(f"{os.getpid()}{newline}{rest}")
        file.truncate()
    leftover = _read_pid_file(base)
    if leftover:
        _remove_socket_directory(base, leftover.socket)


def _make_socket_directory(base: Base) -> Path:
    directory = base.socket
    length = len(os.fsencode(directory / f".s.PGSQL.{PORT}"))
    # A comma or a quote would end the path in the setting or in a connection string.
    if length > _LONGEST_SOCKET_PATH or not set(str(directory)).isdisjoint(",'\"\\ \t@"):
        directory = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX, dir="/tmp"))
    else:
        directory.mkdir(mode=0o700, exist_ok=True)
    # Left by a crash, these name a process id that may be taken again; the data directory's own
    # pid file is what keeps two servers apart.
    for leftover in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
        (directory / leftover).unlink(missing_ok=True)
    give_to_server(directory, base)
    return directory


def _remove_socket_directory(base: Base, directory: Path) -> None:
    # Only a directory of _make_socket_directory: the name comes from a file the server writes.
    if directory.parent == Path("/tmp") and directory.name.startswith(_SOCKET_PREFIX):  # noqa: S108
        try:
            owner = directory.lstat().st_uid
        except FileNotFoundError:
            return
        if owner == base.account.uid and not directory.is_symlink():
            shutil.rmtree(directory, ignore_errors=True)


def _log_tail(base: Base, offset: int = 0) -> str:
    try:
        text = base.log.read_bytes()[offset:].decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-_LOG_TAIL_LINES:])


def _failure(base: Base, message: str) -> EmbeddedServerError:
    return EmbeddedServerError(
        message,
        detail=_log_tail(base),
        hint=f'Read the server\'s log, "{base.log}", or set PGTRICKLE_DSN to another server.',
    )
