"""One scene for all tests that only look, and a small shop for those that change something."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle import Trickle
from pgtrickle.settings import POSTGRES, Settings
from tests.console.pages import Site, served
from tests.console.scene import set_up
from tests.fakes.engine import NoEngine
from tests.labs.lab import Lab


@pytest.fixture(scope="session")
def scene(server_dsn: str, template_database: str) -> Iterator[Trickle]:
    """Make the scene once, and yield a client on it."""
    name = f"scene_{uuid.uuid4().hex[:12]}"
    named = sql.Identifier(name)
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        template = sql.Identifier(template_database)
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(named, template))
    dsn = make_conninfo(server_dsn, dbname=name, options="-c timezone=UTC")
    set_up(dsn)
    with pgtrickle.connect(
        settings=Settings(dsn=dsn, engine=POSTGRES), engine=NoEngine()
    ) as trickle:
        yield trickle
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(named))


@pytest.fixture
def shop(postgres_lab: Lab) -> Lab:
    postgres_lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, v int)",
        "INSERT INTO t SELECT n, n % 5, n FROM generate_series(1, 50) AS n",
    )
    postgres_lab.create("sums", "SELECT k, sum(v) AS v FROM t GROUP BY k")
    return postgres_lab


@pytest.fixture
def site(shop: Lab) -> Iterator[Site]:
    with served(shop.trickle) as made:
        yield made
