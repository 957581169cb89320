"""A new user: a database of his own, an ordinary role, a shell, psql and Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from typer.testing import CliRunner

from pgtrickle import Trickle, connect
from pgtrickle.cli.main import app
from pgtrickle.cli.setup import Setup
from pgtrickle.service.requests.server import RequestServer
from tests.fixtures.engines import Borrowed
from tests.fixtures.psql import Said, psql

_ROOT = Path(__file__).parents[2]

ORDERS = (
    "CREATE TABLE orders (id int PRIMARY KEY, region text, amount numeric(10, 2))",
    "INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 20), (3, 'north', 5)",
)
REVENUE = "SELECT region, sum(amount) AS total FROM orders GROUP BY region"


@dataclass(frozen=True, slots=True)
class Printed:
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


@dataclass(slots=True)
class Newcomer:
    """What the user types, and what he sees."""

    dsn: str
    engine: Borrowed
    directory: Path
    role: str = ""
    _clients: list[Trickle] = field(default_factory=list)

    def sql(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, in a fixed order."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return sorted(connection.execute(query.encode()).fetchall(), key=repr)

    def value(self, query: str) -> Any:
        """Return the one value of a query."""
        [(found,)] = self.rows(query)
        return found

    def psql(self, *commands: str) -> Said:
        """Type commands into psql."""
        return psql(self.dsn, *commands)

    def type(self, *arguments: str, **environment: str) -> Printed:
        """Type a command of pgtrickle; DuckDB computes in Spark's place."""

        def open_database(dsn: str | None, **more: Any) -> Trickle:
            return connect(dsn, engine=self.engine, **more)

        variables = {"PGTRICKLE_DSN": self.dsn, "COLUMNS": "200", **environment}
        setup = Setup(connect=open_database)
        done = CliRunner().invoke(app, arguments, env=variables, obj=setup, prog_name="pgtrickle")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return Printed(done.exit_code, done.stdout, done.stderr)

    def run(self, *arguments: str, **environment: str) -> Printed:
        """Run a command of pgtrickle as a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "pgtrickle", *arguments],
            env=self.environment | environment,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Printed(done.returncode, done.stdout, done.stderr)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process of the user's."""
        path = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
        return {**os.environ, "PGTRICKLE_DSN": self.dsn, "PYTHONPATH": path}

    @property
    def trickle(self) -> Trickle:
        """The client of his Python program."""
        if not self._clients:
            self._clients.append(connect(self.dsn, engine=self.engine))
        return self._clients[0]

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Answer what SQL asks for, as a daemon does."""
        with RequestServer(self.trickle._runtime, workers=2):
            yield

    def close(self) -> None:
        """End the Python program."""
        for client in self._clients:
            client.close()


Open = Callable[[str], Newcomer]
