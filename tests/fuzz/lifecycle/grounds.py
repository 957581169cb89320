"""Databases of one server in which a stream table lives, one after the other."""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import pgtrickle
from pgtrickle.catalog.migrate import migrate
from pgtrickle.embedded.account import choose_account
from pgtrickle.embedded.binaries import find_binaries
from pgtrickle.settings import Settings
from tests.fuzz.servers import EngineFor, open_engines, open_server, settings_for
from tests.labs.lab import Lab


@dataclass(slots=True)
class Grounds:
    """A server, a template with the catalog, and the databases that were made of it."""

    server_dsn: str
    template: str  # a database with the catalog and nothing else
    engine_for: EngineFor
    settings: Settings
    made: list[str] = field(default_factory=list)

    def fresh(self) -> Lab:
        """Open a new database that has the catalog."""
        return self._open(self._create(self.template))

    def cloned(self, lab: Lab) -> Lab:
        """Close a database, and open a copy of its files."""
        name = _database(lab)
        close(lab)
        return self._open(self._create(name))

    def dumped(self, lab: Lab) -> Lab:
        """Close a database, and open what pg_dump and psql make of it."""
        name = _database(lab)
        close(lab)
        copy = self._create("template0")
        source, target = (make_conninfo(self.server_dsn, dbname=one) for one in (name, copy))
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "dump.sql"
            _run("pg_dump", "-d", source, "-f", str(file))
            _run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", target, "-f", str(file))
        return self._open(copy)

    def drop(self) -> None:
        """Drop the databases, once nobody uses them."""
        while self.made:
            _execute(self.server_dsn, "DROP DATABASE IF EXISTS {} WITH (FORCE)", self.made.pop())

    def _create(self, template: str) -> str:
        name = f"life_{uuid.uuid4().hex[:12]}"
        statement = "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy"
        _execute(self.server_dsn, statement, name, template)
        self.made.append(name)
        return name

    def _open(self, name: str) -> Lab:
        dsn = make_conninfo(self.server_dsn, dbname=name)
        trickle = pgtrickle.connect(dsn, engine=self.engine_for(dsn), settings=self.settings)
        return Lab(trickle, psycopg.connect(dsn, autocommit=True))


@contextmanager
def open_grounds(engine: str) -> Iterator[Grounds]:
    """Start a server with an engine, and make the template."""
    with open_server() as dsn, open_engines(engine) as engine_for:
        template = f"life_{uuid.uuid4().hex[:12]}"
        _execute(dsn, "CREATE DATABASE {} TEMPLATE template0", template)
        with psycopg.connect(make_conninfo(dsn, dbname=template), autocommit=True) as connection:
            migrate(connection)
        yield Grounds(dsn, template, engine_for, living(engine))
        _execute(dsn, "DROP DATABASE {} WITH (FORCE)", template)


def living(engine: str) -> Settings:
    """Return settings that let little changes do what takes many elsewhere."""
    return settings_for(engine, compact_threshold=1, shadow_refresh_throttle_ms=0)


def close(lab: Lab) -> None:
    """Leave a database."""
    lab.trickle.close()
    lab.connection.close()


def _database(lab: Lab) -> str:
    return str(conninfo_to_dict(lab.trickle.dsn)["dbname"])


def _execute(dsn: str, statement: str, *names: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _run(program: str, *arguments: str) -> None:
    directory = os.environ.get("PGTRICKLE_TEST_BINDIR")
    binaries = (
        Path(directory) if directory else find_binaries(choose_account(Path("nobody"))).directory
    )
    command = [str(binaries / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
