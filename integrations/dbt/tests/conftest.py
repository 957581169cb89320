"""A real dbt, a real PostgreSQL and a daemon beside it.

``make test-dbt`` makes the environment of dbt and names it in DBT: its libraries and ours do not go
together.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgtrickle
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings

PACKAGE = Path(__file__).resolve().parents[1]
SOURCES = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customers (id int PRIMARY KEY, region text);
    CREATE TABLE shop.orders (id int PRIMARY KEY, customer_id int, amount numeric);
    INSERT INTO shop.customers VALUES (1, 'north'), (2, 'south');
    INSERT INTO shop.orders VALUES (1, 1, 10), (2, 2, 25), (3, 1, 5)
"""


@dataclass
class Served:
    """A database with a daemon, and a dbt that waits for commands."""

    connection: psycopg.Connection[Any]
    trickle: pgtrickle.Trickle
    runner: subprocess.Popen[str]
    prepared: Path

    def begin(self) -> None:
        """Let nothing be there but the sources: each test begins like that."""
        while left := self.trickle.list_stream_tables():
            self.trickle.drop_stream_table(str(left[0].name), cascade=True)
        self.connection.execute("DROP SCHEMA IF EXISTS analytics, shop CASCADE")
        self.connection.execute(SOURCES)

    def rows(self, query: str) -> list[Any]:
        """Return the rows of a query, in a fixed order."""
        return sorted(self.connection.execute(query.encode()).fetchall(), key=repr)


@dataclass
class Dbt:
    """The example project, and the database it builds."""

    folder: Path
    served: Served

    def __post_init__(self) -> None:
        self.connection = self.served.connection
        self.trickle = self.served.trickle
        self.rows = self.served.rows

    def __call__(self, *arguments: str, fails: bool = False) -> str:
        """Run dbt; return what it printed."""
        runner = self.served.runner
        assert runner.stdin is not None
        assert runner.stdout is not None
        command = {"folder": str(self.folder), "arguments": ["--no-use-colors", *arguments]}
        runner.stdin.write(json.dumps(command) + "\n")
        runner.stdin.flush()
        answer = json.loads(runner.stdout.readline())
        printed = str(answer["printed"])
        assert answer["success"] is not fails, printed
        return printed

    def write(self, model: str, text: str) -> None:
        """Write a model."""
        (self.folder / "models" / f"{model}.sql").write_text(text)

    def results(self) -> dict[str, str]:
        """Return how each node of the last command ended."""
        found = json.loads((self.folder / "target" / "run_results.json").read_text())["results"]
        return {one["unique_id"].split(".")[2]: one["status"] for one in found}


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a server with a daemon, and dbt beside it with its packages installed."""
    place = tmp_path_factory.mktemp("dbt")
    for one in (place, place.parent):
        one.chmod(0o711)  # root's server runs as an account without rights
    prepared = place / "example"
    shutil.copytree(PACKAGE / "example", prepared)
    (prepared / "packages.yml").write_text(f"packages: [{{local: '{PACKAGE}'}}]")
    with (
        start_embedded(place / "server") as server,
        pgtrickle.connect(server.dsn, settings=Settings(engine=POSTGRES), init=True) as trickle,
        psycopg.connect(server.dsn, autocommit=True) as connection,
        ExitStack() as started,
    ):
        environment = {
            **os.environ,
            "PGHOST": connection.info.host,
            "PGPORT": str(connection.info.port),
            "PGUSER": connection.info.user,
            "PGDATABASE": connection.info.dbname,
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        }
        program = Path(os.environ["DBT"])
        subprocess.run([program, "deps"], cwd=prepared, env=environment, check=True)
        runner = subprocess.Popen(
            [program.with_name("python"), Path(__file__).with_name("runner.py")],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.callback(_end, runner)
        daemon = subprocess.Popen(
            [sys.executable, "-m", "pgtrickle", "run"],
            env={**os.environ, "PGTRICKLE_DSN": server.dsn, "PGTRICKLE_ENGINE": "postgres"},
            stdout=subprocess.DEVNULL,
        )
        started.callback(_end, daemon)
        yield Served(connection, trickle, runner, prepared)


@pytest.fixture
def dbt(served: Served, tmp_path: Path) -> Dbt:
    """Return the example project, of which nothing is built."""
    served.begin()
    folder = shutil.copytree(served.prepared, tmp_path / "example", symlinks=True)
    return Dbt(folder, served)


def _end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    process.wait(60)
