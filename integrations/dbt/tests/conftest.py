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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

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
class Dbt:
    """The example project, and the database it builds."""

    folder: Path
    connection: psycopg.Connection[Any]
    trickle: pgtrickle.Trickle
    environment: dict[str, str]

    def __call__(self, *arguments: str, fails: bool = False) -> str:
        """Run dbt; return what it printed."""
        done = subprocess.run(
            [os.environ["DBT"], "--no-use-colors", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout

    def write(self, model: str, text: str) -> None:
        """Write a model."""
        (self.folder / "models" / f"{model}.sql").write_text(text)

    def rows(self, query: str) -> list[Any]:
        """Return the rows of a query, in a fixed order."""
        return sorted(self.connection.execute(query.encode()).fetchall(), key=repr)

    def results(self) -> dict[str, str]:
        """Return how each node of the last command ended."""
        found = json.loads((self.folder / "target" / "run_results.json").read_text())["results"]
        return {one["unique_id"].split(".")[2]: one["status"] for one in found}


@pytest.fixture
def dbt(tmp_path: Path) -> Iterator[Dbt]:
    """Yield the example project on a fresh server with a daemon."""
    shutil.copytree(PACKAGE / "example", tmp_path / "example")
    (tmp_path / "example" / "packages.yml").write_text(f"packages: [{{local: '{PACKAGE}'}}]")
    home = tmp_path / "server"
    tmp_path.chmod(0o711)
    with (
        start_embedded(home) as server,
        pgtrickle.connect(server.dsn, settings=Settings(engine=POSTGRES), init=True) as trickle,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        connection.execute(SOURCES)
        found = conninfo_to_dict(server.dsn)
        environment = {
            **os.environ,
            "PGHOST": str(found["host"]),
            "PGPORT": str(found.get("port", 5432)),
            "PGUSER": str(found.get("user", connection.info.user)),
            "PGDATABASE": connection.info.dbname,
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        }
        daemon = subprocess.Popen(
            [sys.executable, "-m", "pgtrickle", "run"],
            env={**os.environ, "PGTRICKLE_DSN": server.dsn, "PGTRICKLE_ENGINE": "postgres"},
            stdout=subprocess.DEVNULL,
        )
        try:
            made = Dbt(tmp_path / "example", connection, trickle, environment)
            made("deps")
            yield made
        finally:
            daemon.terminate()
            daemon.wait(60)
