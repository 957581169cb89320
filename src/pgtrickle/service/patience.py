"""Transactions that do not wait for the locks of others for long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from psycopg import Connection

from pgtrickle.errors import ServerBusyError

T = TypeVar("T")

ATTEMPTS: Final = 5
_PAUSE_SECONDS = 0.2

_SET = "SELECT pg_catalog.set_config('lock_timeout', %s, true)"


@contextmanager
def impatient(connection: Connection, patience: str = "100ms") -> Iterator[None]:
    """Run a block in a transaction that gives up a lock it does not get within ``patience``."""
    with connection.transaction():
        connection.execute(_SET, [patience])
        yield


def try_again(transaction: Callable[[], T], attempts: int = ATTEMPTS) -> T:
    """Run a transaction, again if it gave up a lock, so many times; the last error is raised."""
    for attempt in range(1, attempts):
        try:
            return transaction()
        except ServerBusyError:
            time.sleep(_PAUSE_SECONDS * attempt)
    return transaction()
