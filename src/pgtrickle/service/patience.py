"""Transactions that do not wait for the locks of others for long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Connection

_SET = "SELECT pg_catalog.set_config('lock_timeout', %s, true)"


@contextmanager
def impatient(connection: Connection, patience: str = "100ms") -> Iterator[None]:
    """Run a block in a transaction that gives up a lock it does not get within ``patience``."""
    with connection.transaction():
        connection.execute(_SET, [patience])
        yield
