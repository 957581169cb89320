"""A command line in this process, on a fresh database, with DuckDB in Spark's place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow
from typer.testing import CliRunner

from pgtrickle import Trickle, connect
from pgtrickle.cli.main import app
from pgtrickle.cli.setup import Setup
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed


@dataclass(frozen=True)
class Answer:
    """How a command ended and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.stdout)

    @property
    def error(self) -> Any:
        """The error in the JSON document."""
        return self.json["error"]


@dataclass
class CommandLine:
    """Runs ``pgtrickle`` with the arguments given."""

    dsn: str | None = None
    setup: Setup = field(default_factory=Setup)

    def __call__(self, *arguments: str, stdin: str | bytes | None = None, **env: str) -> Answer:
        environment: dict[str, str | None] = {
            "PGTRICKLE_DSN": self.dsn,
            "PGTRICKLE_DEBUG": None,
            **env,
        }
        result = CliRunner().invoke(
            app, arguments, input=stdin, env=environment, obj=self.setup, prog_name="pgtrickle"
        )
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def bare_cli() -> CommandLine:
    """Return a command line that reaches no database."""

    def refuse(dsn: str | None, *, init: bool | None = None) -> Trickle:
        raise AssertionError("a usage mistake must be found before connecting")

    return CommandLine(setup=Setup(connect=refuse))


@pytest.fixture
def cli(database: str, duckdb_engine: DuckDbEngine) -> CommandLine:
    """Return a command line on a fresh database, in which every command finds a catalog."""

    def open_database(dsn: str | None, *, init: bool | None = None) -> Trickle:
        return connect(dsn, engine=Borrowed(duckdb_engine), init=init)

    return CommandLine(database, Setup(connect=open_database))


@pytest.fixture
def first_cli(empty_database: str, duckdb_engine: DuckDbEngine) -> CommandLine:
    """Return a command line on a database that was never initialised."""

    def open_database(dsn: str | None, *, init: bool | None = None) -> Trickle:
        return connect(dsn, engine=Borrowed(duckdb_engine), init=init)

    return CommandLine(empty_database, Setup(connect=open_database))


@pytest.fixture
def user(database: str) -> Iterator[Connection[TupleRow]]:
    """Yield a session of the user, with a table ``items`` of two rows."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE items (id int PRIMARY KEY, price numeric(10, 2))")
        connection.execute("INSERT INTO items VALUES (1, 5), (2, 50)")
        yield connection


@pytest.fixture
def cheap(cli: CommandLine, user: Connection[TupleRow]) -> str:
    """Create a stream table of one row and return its name."""
    created = cli("create", "cheap", "--query", "SELECT id, price FROM items WHERE price < 10")
    assert created.exit_code == 0, created.stderr
    return "public.cheap"
