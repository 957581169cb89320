"""The oldest supported server, where its binaries are installed, has all that we rely on."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from pgtrickle.catalog.migrate import check_version, migrate
from tests.capture.readers import capture, changes, next_window, snapshot
from tests.fixtures.postgres import enterable_directory

BINARIES = Path("/usr/lib/postgresql/15/bin")

pytestmark = pytest.mark.skipif(not BINARIES.exists(), reason="PostgreSQL 15 is not installed")


@pytest.fixture
def oldest_dsn() -> Iterator[str]:
    with oldest_server() as dsn:
        yield dsn


@contextmanager
def oldest_server(*settings: str) -> Iterator[str]:
    """Start the server, which trusts everyone, and yield the connection string of a superuser."""
    # Root may not run the server; the package that brings the binaries brings this account too.
    account = "postgres" if os.geteuid() == 0 else None
    with enterable_directory() as directory:
        data = directory / "data"
        data.mkdir()
        if account:
            _run("chown", account, str(directory), str(data))
        options = " ".join(
            f"-c {setting}"
            for setting in (
                "listen_addresses=",
                f"unix_socket_directories={directory}",
                "fsync=off",
                *settings,
            )
        )
        _run(str(BINARIES / "initdb"), "-D", str(data), "-A", "trust", "-U", "owner", user=account)
        control = [str(BINARIES / "pg_ctl"), "-D", str(data), "-w"]
        _run(*control, "-l", f"{data}/log", "-o", options, "start", user=account)
        try:
            yield f"host={directory} user=owner dbname=postgres"
        finally:
            _run(*control, "-m", "immediate", "stop", user=account)


def _run(*command: str, user: str | None = None) -> None:
    subprocess.run(command, check=True, capture_output=True, user=user, cwd="/")


def test_catalog_and_capture_work_on_the_oldest_server(oldest_dsn: str):
    with psycopg.connect(oldest_dsn, autocommit=True) as connection:
        migrate(connection)
        check_version(connection)
        connection.execute("CREATE TABLE orders (id int, qty int)")
        captured = capture(connection, "orders", "id", "qty")
        start = snapshot(connection)
        connection.execute("INSERT INTO orders VALUES (1, 1), (2, 2)")
        connection.execute("UPDATE orders SET qty = 3 WHERE id = 1")

        found, _ = next_window(connection, captured, start)

        assert found == changes(connection, captured) == Counter([(1, 3), (2, 2)])
