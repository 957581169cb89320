"""The database of an Airflow connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from airflow.sdk import BaseHook, Connection
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

import pgtrickle
from pgtrickle.client.commands import beside_daemon

DEFAULT = "pgtrickle_default"

_SUBMIT = "SELECT pgtrickle.submit_request('refresh_stream_table', %(arguments)s)"
_FOLLOW = """
    SELECT r.status, r.result, r.error, pgtrickle.is_served()
      FROM pgtrickle.requests AS r WHERE r.request_id = %(request)s
"""


class PgTrickleHook(BaseHook):
    """A database with stream tables: an Airflow connection of the type ``postgres``."""

    def __init__(self, conn_id: str = DEFAULT) -> None:
        super().__init__()
        self.conn_id = conn_id

    def dsn(self) -> str:
        """Return the connection string."""
        return dsn_of(self.get_connection(self.conn_id))

    @contextmanager
    def client(self) -> Iterator[pgtrickle.Trickle]:
        """Lend a client; a daemon that serves the database does the work, else this process."""
        with pgtrickle.connect(self.dsn()) as trickle:
            yield beside_daemon(trickle, self.log.info)

    def submit_refresh(self, stream_table: str, *, full: bool) -> int:
        """Ask the daemon for a refresh without waiting; return the number of the request."""
        with psycopg.connect(self.dsn()) as connection:
            if connection.execute("SELECT pgtrickle.is_served()").fetchone() != (True,):
                raise RuntimeError("no pgtrickle daemon serves this database: start pgtrickle run")
            arguments = {"name": stream_table, "full": full}
            row = connection.execute(_SUBMIT, {"arguments": Jsonb(arguments)}).fetchone()
        return int(row[0])


def dsn_of(connection: Connection) -> str:
    """Return a connection string; what stands in the extras are further words of libpq."""
    words = {
        "host": connection.host,
        "port": connection.port,
        "dbname": connection.schema,
        "user": connection.login,
        "password": connection.password,
        **connection.extra_dejson,
    }
    return make_conninfo(**{name: value for name, value in words.items() if value})


async def follow(dsn: str, request: int) -> dict[str, Any] | None:
    """Return how a request ended; None while it has not."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        cursor = await connection.execute(_FOLLOW, {"request": request})
        row = await cursor.fetchone()
    if row is None:
        return {"error": f"the request {request} is gone"}
    status, result, error, served = row
    if error is not None:
        told = [f"{error['code']}: {error['message']}", error.get("detail"), error.get("hint")]
        return {"error": "\n".join(filter(None, told))}
    if status in ("QUEUED", "RUNNING"):
        return None if served else {"error": "the pgtrickle daemon has ended: start pgtrickle run"}
    return {"result": result} if result is not None else {"error": f"it ended as {status}"}
