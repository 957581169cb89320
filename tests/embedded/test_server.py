"""One process and its server: start, settings, stop, start again."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pgtrickle.embedded.processes import started
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import EmbeddedServerError


def socket_directory_of(server):
    return Path(str(conninfo_to_dict(server.dsn)["host"]))


def test_server_keeps_its_data_between_starts(home):
    with start_embedded(home) as server, psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")

    with start_embedded(home) as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_server_stops_with_its_context(home):
    with start_embedded(home) as server:
        assert started(server.pid)

    assert started(server.pid) is None


def test_server_stops_when_the_process_ends_without_stopping_it(home):
    script = "import sys; from pathlib import Path; from pgtrickle.embedded.server import *; "
    script += "print(start_embedded(Path(sys.argv[1])).pid)"

    ended = subprocess.run(
        [sys.executable, "-c", script, str(home)], capture_output=True, text=True, check=True
    )

    assert started(int(ended.stdout)) is None


def test_stopping_twice_does_no_harm(home):
    server = start_embedded(home)

    server.stop()
    server.stop()


def test_server_has_the_promised_settings(home):
    wanted = {
        "listen_addresses": "",
        "server_encoding": "UTF8",
        "fsync": "on",
        "max_connections": "100",
        "max_prepared_transactions": "10",
        "wal_level": "logical",
        "unix_socket_permissions": "0700",
    }

    with start_embedded(home) as server, psycopg.connect(server.dsn) as connection:
        found = connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(wanted)]
        ).fetchall()
        collation = connection.execute(
            "SELECT datcollate FROM pg_database WHERE datname = 'postgres'"
        ).fetchone()

    assert dict(found) == wanted
    assert collation in {("C.UTF-8",), ("C",)}


def test_socket_and_data_are_closed_to_others(home):
    with start_embedded(home) as server:
        sockets = socket_directory_of(server)
        modes = {
            stat.S_IMODE(directory.stat().st_mode) for directory in (sockets, server.data_directory)
        }

    assert modes == {0o700}


def test_long_or_odd_path_gets_a_short_socket_directory(home):
    odd = home / ("long, odd 'name' " * 8)

    with start_embedded(odd) as server, psycopg.connect(server.dsn) as connection:
        sockets = socket_directory_of(server)
        assert connection.execute("SELECT 1").fetchone() == (1,)

    assert not sockets.exists()


def test_shell_variables_of_postgres_do_not_reach_the_server(home, monkeypatch):
    monkeypatch.setenv("PGDATA", "/nonexistent")
    monkeypatch.setenv("PGPORT", "1")

    with start_embedded(home) as server, psycopg.connect(server.dsn) as connection:
        assert connection.info.port == 5432


def test_project_directory_comes_from_the_environment(home, monkeypatch):
    monkeypatch.setenv("PGTRICKLE_HOME", str(home))

    with start_embedded() as server:
        assert server.directory == home.resolve()


def test_missing_binaries_are_an_error_with_a_hint(home, monkeypatch):
    monkeypatch.setenv("PGTRICKLE_PG_BINDIR", "/nonexistent")

    with pytest.raises(EmbeddedServerError, match="cannot find PostgreSQL") as caught:
        start_embedded(home)

    assert "PGTRICKLE_PG_BINDIR" in caught.value.hint


def test_failed_start_shows_the_log_and_the_next_one_works(home):
    with start_embedded(home) as server:
        settings = server.data_directory / "postgresql.auto.conf"
    settings.write_text("shared_buffers = 'much'\n")

    with pytest.raises(EmbeddedServerError, match="ended with status 1") as caught:
        start_embedded(home)
    settings.write_text("")

    assert "shared_buffers" in caught.value.detail
    start_embedded(home).stop()


def test_data_of_another_version_is_refused(home):
    with start_embedded(home) as server:
        version = server.data_directory / "PG_VERSION"
    version.write_text("9\n")

    with pytest.raises(EmbeddedServerError, match=r"on data of PostgreSQL 9$"):
        start_embedded(home)
