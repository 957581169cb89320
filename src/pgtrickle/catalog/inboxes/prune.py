"""Delete messages that were dealt with long ago."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.inboxes.config import Inbox
from pgtrickle.model.text.trusted import trusted

# What waits or has failed is never old.
_PRUNE = """
    DELETE FROM ONLY {table} AS m
     WHERE m.ctid = ANY (ARRAY(
               SELECT o.ctid FROM ONLY {table} AS o
                WHERE o.processed_at < clock_timestamp() - %(hours)s * interval '1 hour'
                LIMIT %(batch)s FOR UPDATE SKIP LOCKED))
"""


def prune_messages(connection: Connection[TupleRow], inbox: Inbox, batch: int) -> int:
    """Delete up to ``batch`` messages whose time is over; return how many."""
    query = _PRUNE.replace("{table}", inbox.table.sql)
    values = {"hours": inbox.retention_hours, "batch": batch}
    return connection.execute(trusted(query), values).rowcount
