"""The new user, and the daemons that he starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.catalog.databases import ordinary_role
from tests.fixtures.daemons import Daemon, await_

if TYPE_CHECKING:
    from tests.fakes.engine import DuckDbEngine
    from tests.first_week.newcomer import Newcomer

_STARTED = "keeping stream tables fresh"


@contextmanager
def _arriving(database: str, engine: DuckDbEngine, directory: Path) -> Iterator[Newcomer]:
    from tests.first_week.newcomer import Newcomer
    from tests.fixtures.engines import Borrowed

    with ordinary_role(database) as role:
        with psycopg.connect(database, autocommit=True) as admin:
            who = sql.Identifier(role)
            where = sql.Identifier(admin.info.dbname)
            admin.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(where, who))
            admin.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(who))
        newcomer = Newcomer(make_conninfo(database, user=role), Borrowed(engine), directory, role)
        try:
            yield newcomer
        finally:
            newcomer.close()


@pytest.fixture
def database(empty_database: str) -> str:
    """Let an ordinary role make the catalog."""
    return empty_database


@pytest.fixture
def arrival(database: str, duckdb_engine: DuckDbEngine, tmp_path: Path) -> Iterator[Newcomer]:
    """Let a new user in, into a database that knows nothing of pgtrickle."""
    with _arriving(database, duckdb_engine, tmp_path) as found:
        yield found


@pytest.fixture
def newcomer(arrival: Newcomer) -> Newcomer:
    """Give the new user a catalog."""
    made = arrival.type("init")
    assert made.status == 0, made.err
    return arrival


@pytest.fixture
def admin(database: str, newcomer: Newcomer) -> Iterator[Callable[..., None]]:
    """Yield what runs statements as the owner of the database, whose tables go before the user."""
    with psycopg.connect(database, autocommit=True) as connection:

        def run(*statements: str) -> None:
            for statement in statements:
                connection.execute(statement.encode())

        yield run


@pytest.fixture
def elsewhere(
    other_database: str, duckdb_engine: DuckDbEngine, tmp_path: Path
) -> Iterator[Newcomer]:
    """Let the same person work in a second database."""
    with _arriving(other_database, duckdb_engine, tmp_path) as found:
        found.type("init")
        yield found


@pytest.fixture
def shop(newcomer: Newcomer) -> Newcomer:
    """Give the user a table and a stream table of it, without a daemon."""
    from tests.first_week.newcomer import ORDERS, REVENUE

    newcomer.sql(*ORDERS)
    created = newcomer.type("create", "revenue", "--query", REVENUE, "--schedule", "1s")
    assert created.status == 0, created.err
    return newcomer


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Yield what starts ``pgtrickle run`` for a user, and waits until it is at work."""
    with ExitStack() as stack:

        def start(user: Newcomer, *options: str, **environment: str) -> Daemon:
            started = stack.enter_context(_process(user, options, environment, tmp_path))
            await_(lambda: any(_STARTED in line for line in started.log()))
            await_(lambda: user.value("SELECT pgtrickle.is_served()"))
            return started

        yield start


@contextmanager
def _process(
    user: Newcomer, options: tuple[str, ...], environment: dict[str, str], directory: Path
) -> Iterator[Daemon]:
    lines = directory / f"daemon-{len(list(directory.glob('daemon-*')))}.log"
    with lines.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.first_week.duck_daemon", *options],
            env=user.environment | environment,
            cwd=directory,
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        yield Daemon(process, lines)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def program(newcomer: Newcomer) -> Callable[[str], str]:
    """Run a Python program of the user's with a Spark of its own, and return what it prints."""

    def run(text: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", text],
            env=newcomer.environment,
            cwd=newcomer.directory,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
