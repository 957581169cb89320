"""A PostgreSQL server that listens on TCP, for programs that know no other way (JDBC)."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from pgtrickle.embedded.binaries import find_binaries
from pgtrickle.embedded.cluster import make_data_directory
from pgtrickle.embedded.home import open_base, open_home

_START_SECONDS = 60.0


@contextmanager
def tcp_server(directory: Path) -> Iterator[str]:
    """Run the embedded server's programs on a free port of 127.0.0.1, for whoever is on it."""
    directory.chmod(0o755)
    base = open_base(open_home(directory / "home"))
    binaries = find_binaries(base.account)
    make_data_directory(base, binaries)
    access = base.directory / "trust.conf"
    access.write_text("host all all 127.0.0.1/32 trust\n")
    access.chmod(0o644)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
    command = [binaries.postgres, "-D", str(base.data), "-c", f"hba_file={access}"]
    command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with base.log.open("ab") as log:
        process = base.account.spawn(command, output=log)
    dsn = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    try:
        _await(dsn)
        yield dsn
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _await(dsn: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
