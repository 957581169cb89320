"""Queries over the entries of outboxes, by the functions that users of SQL have."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import set_json_loads

from pgtrickle.catalog.outboxes.consumers import READ_EXACTLY
from pgtrickle.model.streams.outbox import Outbox, OutboxChange, OutboxPosition
from pgtrickle.model.text.names import QualifiedName

_STATUS = "SELECT * FROM pgtrickle.outbox_status(%(name)s, '{}')"


def list_outboxes(connection: Connection[TupleRow], name: QualifiedName | None) -> list[Outbox]:
    """Return the outboxes of all stream tables, or that of one."""
    with connection.cursor(row_factory=class_row(Outbox)) as cursor:
        return cursor.execute(_STATUS, {"name": None if name is None else name.sql}).fetchall()


_POSITION = "SELECT * FROM pgtrickle.outbox_position(%(name)s, '{}')"


def get_position(connection: Connection[TupleRow], name: QualifiedName) -> OutboxPosition:
    """Return the last entry of an outbox, as the transaction sees it; or raise ST801."""
    with connection.cursor(row_factory=class_row(OutboxPosition)) as cursor:
        return cursor.execute(_POSITION, {"name": name.sql}).fetchall()[0]


_ROWS = """
    SELECT * FROM pgtrickle.outbox_rows(
        %(name)s, %(from)s, %(to)s, %(after)s, %(most)s, '{}')
"""


def list_changes(
    connection: Connection[TupleRow],
    name: QualifiedName,
    from_id: int | None,
    to_id: int | None,
    *,
    after_row: int = 0,
    max_rows: int | None = None,
) -> list[OutboxChange]:
    """Return the changes of some entries, both ends included; or raise ST802."""
    values = {
        "name": name.sql,
        "from": from_id,
        "to": to_id,
        "after": after_row,
        "most": max_rows,
    }
    with connection.cursor(row_factory=class_row(OutboxChange)) as cursor:
        set_json_loads(READ_EXACTLY, cursor)
        return cursor.execute(_ROWS, values).fetchall()
