"""Consumer groups, by the functions that users of SQL have."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final, LiteralString

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import set_json_loads

from pgtrickle.model.streams.outbox import ConsumerLag, LeasedEntry
from pgtrickle.model.text.names import QualifiedName

READ_EXACTLY: Final = partial(json.loads, parse_float=Decimal)
_CREATE = "SELECT pgtrickle.create_consumer_group(%(name)s, %(outbox)s, %(reset)s, '{}')"


def create_consumer_group(
    connection: Connection[TupleRow], name: str, outbox: QualifiedName, auto_offset_reset: str
) -> None:
    """Create a group of consumers of an outbox; or raise ST803."""
    connection.execute(_CREATE, {"name": name, "outbox": outbox.sql, "reset": auto_offset_reset})


_DROP = "SELECT pgtrickle.drop_consumer_group(%(name)s, %(if_exists)s)"


def drop_consumer_group(connection: Connection[TupleRow], name: str, *, if_exists: bool) -> bool:
    """Drop a group; return whether it was there."""
    return bool(_ask(connection, _DROP, name=name, if_exists=if_exists))


_POLL = """
    SELECT * FROM pgtrickle.poll_outbox(
        %(group)s, %(consumer)s, %(batch)s::pg_catalog.int4, %(seconds)s)
"""


def poll_outbox(
    connection: Connection[TupleRow], group: str, consumer: str, batch: int, seconds: float
) -> list[LeasedEntry]:
    """Lease the next entries to a consumer; none if another one has them."""
    values = {"group": group, "consumer": consumer, "batch": batch, "seconds": float(seconds)}
    with connection.cursor(row_factory=class_row(LeasedEntry)) as cursor:
        set_json_loads(READ_EXACTLY, cursor)
        return cursor.execute(_POLL, values).fetchall()


_COMMIT = "SELECT pgtrickle.commit_offset(%(group)s, %(consumer)s, %(id)s)"


def commit_offset(
    connection: Connection[TupleRow], group: str, consumer: str, outbox_id: int
) -> None:
    """Commit all entries up to one; or raise ST804."""
    _ask(connection, _COMMIT, group=group, consumer=consumer, id=outbox_id)


_EXTEND = "SELECT pgtrickle.extend_lease(%(group)s, %(consumer)s, %(seconds)s)"


def extend_lease(
    connection: Connection[TupleRow], group: str, consumer: str, seconds: float
) -> datetime:
    """Keep a lease; return until when. Or raise ST804."""
    found: datetime = _ask(
        connection, _EXTEND, group=group, consumer=consumer, seconds=float(seconds)
    )
    return found


_SEEK = "SELECT pgtrickle.seek_offset(%(group)s, %(id)s)"


def seek_offset(connection: Connection[TupleRow], group: str, outbox_id: int) -> None:
    """Let a group go on after an entry; or raise ST802."""
    _ask(connection, _SEEK, group=group, id=outbox_id)


_BEAT = "SELECT pgtrickle.consumer_heartbeat(%(group)s, %(consumer)s)"


def consumer_heartbeat(connection: Connection[TupleRow], group: str, consumer: str) -> None:
    """Note that a consumer lives."""
    _ask(connection, _BEAT, group=group, consumer=consumer)


_LAG = "SELECT * FROM pgtrickle.consumer_lag(%(group)s)"


def list_consumer_lag(connection: Connection[TupleRow], group: str | None) -> list[ConsumerLag]:
    """Return how far the role's groups, or one of them, are behind."""
    with connection.cursor(row_factory=class_row(ConsumerLag)) as cursor:
        return cursor.execute(_LAG, {"group": group}).fetchall()


def _ask(connection: Connection[TupleRow], statement: LiteralString, **values: Any) -> Any:
    return connection.execute(statement, values).fetchall()[0][0]
