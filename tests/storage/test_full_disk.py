"""A server that runs out of space while a result is staged: a coded error, and then recovery."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.errors import StorageFullError
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab


@dataclass(frozen=True)
class Disk:
    tablespace: str
    directory: Path

    def grow(self) -> None:
        subprocess.run(["mount", "-o", "remount,size=64m", self.directory], check=True)  # noqa: S607


@pytest.fixture
def tiny_disk(database: str) -> Iterator[Disk]:
    """Make a tablespace on a disk of one megabyte, which only root can mount."""
    with psycopg.connect(database, autocommit=True) as connection:
        [(data,)] = connection.execute("SHOW data_directory").fetchall()
        owner = Path(data).stat()
        directory = Path(tempfile.mkdtemp(prefix="pgtrickle-tiny-"))
        mount = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0711", "tmpfs", directory],  # noqa: S607
            capture_output=True,
            check=False,
        )
        if mount.returncode:
            directory.rmdir()
            pytest.skip("no disk can be mounted here")
        name = f"tiny_{os.getpid()}"
        space = directory / "space"
        space.mkdir()
        os.chown(space, owner.st_uid, owner.st_gid)
        connection.execute(f"CREATE TABLESPACE {name} LOCATION '{space}'".encode())
    yield Disk(name, directory)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"DROP TABLESPACE {name}".encode())
    subprocess.run(["umount", directory], check=True)  # noqa: S607
    directory.rmdir()


@pytest.fixture
def cramped(database: str, tiny_disk: Disk, duckdb_engine: DuckDbEngine) -> Iterator[Lab]:
    """Let everything temporary lie on the tiny disk."""
    dsn = make_conninfo(database, options=f"-c temp_tablespaces={tiny_disk.tablespace}")
    with (
        pgtrickle.connect(dsn, engine=Borrowed(duckdb_engine), init=True) as trickle,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        yield Lab(trickle, connection)


def test_full_disk_during_the_copy_of_a_result(cramped: Lab, tiny_disk: Disk):
    cramped.run("CREATE TABLE t (id int PRIMARY KEY, k int, v text)")
    cramped.run("INSERT INTO t SELECT i, i % 3, 'x' FROM generate_series(1, 100) AS i")
    cramped.create("copy", "SELECT id, v FROM t")
    cramped.create("counts", "SELECT k, count(*) AS n, max(v) AS v FROM t GROUP BY k")

    cramped.run(
        "INSERT INTO t SELECT i, i, repeat('y', 500) || i FROM generate_series(101, 5000) AS i"
    )
    for name in ("copy", "counts"):
        with pytest.raises(StorageFullError) as caught:
            cramped.trickle.refresh_stream_table(name)
        assert "disk space" in caught.value.hint
        [failed] = cramped.trickle.refresh_history(name, limit=1)
        assert (failed.status.value, failed.error_code) == ("FAILED", "ST404")
    tiny_disk.grow()

    cramped.window()


def test_full_disk_during_the_first_load_leaves_nothing(cramped: Lab, tiny_disk: Disk):
    cramped.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    cramped.run("INSERT INTO t SELECT i, repeat('y', 500) FROM generate_series(1, 5000) AS i")
    with pytest.raises(StorageFullError):
        cramped.trickle.create_stream_table("copy", "SELECT id, v FROM t")

    assert cramped.leftovers() == []
    tiny_disk.grow()
    cramped.create("copy", "SELECT id, v FROM t")
