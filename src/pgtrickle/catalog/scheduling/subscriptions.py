"""Queries over ``pgt_subscriptions``: channels that are told of refreshes.

A notice that follows another too soon is held back and added to the next; no count is lost, because
what is pending stands in the row until a notice with it commits.
"""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

_TELL = """
    SELECT pgtrickle.tell_subscribers(
        %(id)s::int8, %(refresh)s::int8, %(inserted)s::int8, %(deleted)s::int8, %(wait)s::int4)
"""


def tell_subscribers(
    connection: Connection[TupleRow],
    stream_table_id: int,
    refresh_id: int,
    *,
    inserted: int,
    deleted: int,
    coalesce_ms: int,
) -> None:
    """Tell of a refresh in its own transaction, or hold it back for the next notice."""
    values = {
        "id": stream_table_id,
        "refresh": refresh_id,
        "inserted": inserted,
        "deleted": deleted,
        "wait": coalesce_ms,
    }
    connection.execute(_TELL, values)


_TELL_PENDING = "SELECT * FROM pgtrickle.tell_pending(NULL, %(wait)s::int4)"


def tell_pending(connection: Connection[TupleRow], coalesce_ms: int) -> list[str]:
    """Send the notices that were held back for long enough; return the channels."""
    return [channel for (channel,) in connection.execute(_TELL_PENDING, {"wait": coalesce_ms})]
