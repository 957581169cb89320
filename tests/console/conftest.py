"""One scene for all tests that only look."""

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
from tests.console.scene import set_up
from tests.fakes.engine import NoEngine


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
