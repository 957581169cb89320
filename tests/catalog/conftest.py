"""A migrated database, and roles that are not superusers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgtrickle.catalog.stream_tables import insert_stream_table
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from tests.catalog.databases import Database, become, ordinary_role
from tests.catalog.freeze import OPERATOR, OWNER, READER

FROZEN = sorted(Path(__file__).parent.glob("baseline*.sql"))
_DROP = "DROP OWNED BY {role} CASCADE; DROP ROLE {role}"


@pytest.fixture
def role(database: str) -> Iterator[str]:
    """Make an ordinary role."""
    with ordinary_role(database) as name:
        yield name


@pytest.fixture
def ordinary(role: str, database: str) -> Iterator[Database]:
    """Connect as an ordinary role that may create schemas, and nothing more."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(
                sql.Identifier(connection.info.dbname), sql.Identifier(role)
            )
        )
        become(connection, role)
        yield connection


@pytest.fixture
def catalog(database: str) -> Iterator[Database]:
    """Connect to a database that has the catalog."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def stream_table(catalog: Database) -> StreamTable:
    """Record one stream table."""
    return insert_stream_table(
        catalog,
        relid=4711,
        name=QualifiedName("public", "Daily Sales"),
        defining_query="SELECT 1 AS one",
        original_query="select 1 as one",
        query_search_path='"$user", public',
        schedule="1m",
        refresh_mode=RefreshMode.AUTO,
        effective_refresh_mode=RefreshMode.FULL,
        downgrade_reason="reads no table",
        plan={"stages": []},
    )


@pytest.fixture(params=FROZEN, ids=lambda path: path.stem)
def frozen(request: pytest.FixtureRequest, empty_database: str) -> Iterator[str]:
    """Restore a frozen catalog; yield the owner's connection string."""
    with thawed(request.param, empty_database) as dsn:
        yield dsn


@contextmanager
def thawed(path: Path, empty_database: str) -> Iterator[str]:
    """Restore a frozen catalog as its owner did; yield the owner's connection string."""
    with psycopg.connect(empty_database, autocommit=True) as admin:
        for role in (OWNER, READER, OPERATOR):
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        admin.execute(
            sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(
                sql.Identifier(admin.info.dbname), sql.Identifier(OWNER)
            )
        )
        dsn = make_conninfo(empty_database, user=OWNER)
        with psycopg.connect(dsn, autocommit=True) as owner:
            owner.execute(path.read_text(encoding="utf-8").encode())
        yield dsn
        for role in (READER, OPERATOR, OWNER):
            admin.execute(_DROP.format(role=role).encode())


@pytest.fixture
def owner(frozen: str) -> Iterator[Database]:
    with psycopg.connect(frozen, autocommit=True) as connection:
        yield connection
