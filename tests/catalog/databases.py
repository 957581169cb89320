"""Words the tests of the PostgreSQL adapters share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

Database: TypeAlias = Connection[TupleRow]


def value(connection: Database, statement: str, *parameters: object) -> Any:
    """Run a query of one row and one column."""
    [(found,)] = connection.execute(statement.encode(), parameters or None).fetchall()
    return found


@contextmanager
def ordinary_role(dsn: str) -> Iterator[str]:
    """Make a role without any power, and drop it with all it owns in the database."""
    name = f"role_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield name
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def become(connection: Database, role: str) -> None:
    """Act as another role from now on."""
    connection.execute("RESET SESSION AUTHORIZATION")
    connection.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))


# Each stands before its namesake of pg_catalog on the hostile search_path below.
SHADOWS = """
    CREATE SCHEMA hostile;
    CREATE FUNCTION hostile.stolen() RETURNS text LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;
    CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE sql
        AS $$ SELECT hostile.stolen()::timestamptz $$;
    CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz LANGUAGE sql
        AS $$ SELECT hostile.stolen()::timestamptz $$;
    CREATE FUNCTION hostile.pg_current_xact_id() RETURNS xid8 LANGUAGE sql
        AS $$ SELECT hostile.stolen()::xid8 $$;
    CREATE FUNCTION hostile.nextval(regclass) RETURNS bigint LANGUAGE sql
        AS $$ SELECT hostile.stolen()::bigint $$;
    CREATE FUNCTION hostile.pg_current_snapshot() RETURNS pg_snapshot LANGUAGE sql
        AS $$ SELECT hostile.stolen()::pg_snapshot $$;
    CREATE DOMAIN hostile.text AS pg_catalog.text CHECK (false);
    CREATE DOMAIN hostile.xid8 AS pg_catalog.xid8 CHECK (false);
    GRANT USAGE ON SCHEMA hostile TO PUBLIC;
    SET search_path = hostile, pg_catalog, public;
"""
