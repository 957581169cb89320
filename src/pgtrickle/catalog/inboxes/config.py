"""Queries over ``pgt_inboxes`` and ``pgt_inbox_parts``."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from pgtrickle.errors import InboxAlteredError
from pgtrickle.model.streams.inbox import InboxCheck, InboxStatus, OrderingGap
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted


@dataclass(frozen=True, slots=True)
class Inbox:
    """An inbox as it is on record, under the present name of its table."""

    inbox_id: int
    relid: int
    schema: str
    name: str
    max_retries: int
    schedule_seconds: int
    retention_hours: float
    aggregate_column: str | None
    sequence_column: str | None
    skip_dead_letters: bool
    priority_column: str | None
    urgent_from: float | None
    urgent_seconds: int | None
    trouble: str | None

    @property
    def table(self) -> QualifiedName:
        """The table that receives the messages."""
        return QualifiedName(self.schema, self.name)

    def check(self) -> None:
        """Raise ST842 if the table cannot be used any more."""
        if self.trouble is not None:
            raise InboxAlteredError(
                f'the inbox "{self.table}" cannot be used: {self.trouble}',
                hint="Undo that, or drop the inbox and create it again.",
            )


_SELECT = """
    SELECT i.inbox_id, i.relid::pg_catalog.oid::pg_catalog.int8 AS relid,
           coalesce(n.nspname, i.schema_name)::text AS schema,
           coalesce(c.relname, i.inbox_name)::text AS name,
           i.max_retries, i.schedule_seconds, i.retention_hours, i.aggregate_column,
           i.sequence_column, i.skip_dead_letters, i.priority_column, i.urgent_from,
           i.urgent_seconds, pgtrickle.inbox_trouble(i.relid) AS trouble
      FROM pgtrickle.pgt_inboxes AS i
      LEFT JOIN (pg_catalog.pg_class AS c
                 JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace) ON c.oid = i.relid
"""
_GET = f"{_SELECT} WHERE i.inbox_id = pgtrickle.find_inbox(%(name)s, '{{}}')"
_LIST = f"{_SELECT} ORDER BY i.inbox_id"


def get_inbox(connection: Connection[TupleRow], name: QualifiedName) -> Inbox:
    """Return an inbox, or raise ST841."""
    with connection.cursor(row_factory=class_row(Inbox)) as cursor:
        [found] = cursor.execute(trusted(_GET), {"name": name.sql}).fetchall()
    return found


def list_inboxes(connection: Connection[TupleRow]) -> list[Inbox]:
    """Return all inboxes."""
    with connection.cursor(row_factory=class_row(Inbox)) as cursor:
        return cursor.execute(trusted(_LIST)).fetchall()


_INSERT = """
    INSERT INTO pgtrickle.pgt_inboxes
        (relid, schema_name, inbox_name, max_retries, schedule_seconds, retention_hours)
    VALUES (%(table)s::pg_catalog.regclass, %(schema)s, %(name)s, %(max_retries)s,
            %(schedule_seconds)s, %(retention_hours)s)
"""


def insert_inbox(
    connection: Connection[TupleRow],
    name: QualifiedName,
    *,
    max_retries: int,
    schedule_seconds: int,
    retention_hours: float,
) -> None:
    """Put an inbox on record, whose table exists."""
    values = {
        "table": name.sql,
        "schema": name.schema,
        "name": name.name,
        "max_retries": max_retries,
        "schedule_seconds": schedule_seconds,
        "retention_hours": retention_hours,
    }
    connection.execute(_INSERT, values)


def delete_inbox(connection: Connection[TupleRow], inbox: Inbox) -> None:
    """Forget an inbox."""
    connection.execute("DELETE FROM pgtrickle.pgt_inboxes WHERE inbox_id = %s", [inbox.inbox_id])


_SET_ORDERING = """
    UPDATE pgtrickle.pgt_inboxes
       SET aggregate_column = %(aggregate)s, sequence_column = %(sequence)s,
           skip_dead_letters = %(skip)s
     WHERE inbox_id = %(id)s
"""
_SET_PRIORITY = """
    UPDATE pgtrickle.pgt_inboxes
       SET priority_column = %(column)s, urgent_from = %(from)s, urgent_seconds = %(seconds)s
     WHERE inbox_id = %(id)s
"""


def set_ordering(connection: Connection[TupleRow], inbox: Inbox) -> None:
    """Record by which columns an inbox is ordered."""
    values = {
        "id": inbox.inbox_id,
        "aggregate": inbox.aggregate_column,
        "sequence": inbox.sequence_column,
        "skip": inbox.skip_dead_letters,
    }
    connection.execute(_SET_ORDERING, values)


def set_priority(connection: Connection[TupleRow], inbox: Inbox) -> None:
    """Record which messages of an inbox are urgent."""
    values = {
        "id": inbox.inbox_id,
        "column": inbox.priority_column,
        "from": inbox.urgent_from,
        "seconds": inbox.urgent_seconds,
    }
    connection.execute(_SET_PRIORITY, values)


_ADD_PART = """
    INSERT INTO pgtrickle.pgt_inbox_parts (inbox_id, part, pgt_id)
    SELECT %(id)s, %(part)s, s.pgt_id FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema = %(schema)s AND s.pgt_name = %(name)s
"""
_PARTS = """
    SELECT p.part, s.pgt_schema, s.pgt_name
      FROM pgtrickle.pgt_inbox_parts AS p JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE p.inbox_id = %(id)s ORDER BY p.part
"""


def add_part(
    connection: Connection[TupleRow], inbox: Inbox, part: str, name: QualifiedName
) -> None:
    """Record a stream table of an inbox."""
    values = {"id": inbox.inbox_id, "part": part, "schema": name.schema, "name": name.name}
    connection.execute(_ADD_PART, values)


def list_parts(connection: Connection[TupleRow], inbox: Inbox) -> dict[str, QualifiedName]:
    """Return the stream tables of an inbox."""
    found = connection.execute(_PARTS, {"id": inbox.inbox_id})
    return {part: QualifiedName(schema, name) for part, schema, name in found}


_COLUMNS = """
    SELECT a.attname::text, a.atttypid::pg_catalog.int8
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = %s::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped
"""


def list_columns(connection: Connection[TupleRow], inbox: Inbox) -> dict[str, int]:
    """Return the columns of the table of an inbox with the oids of their types."""
    return dict(connection.execute(_COLUMNS, [inbox.relid]).fetchall())


def list_statuses(
    connection: Connection[TupleRow], name: QualifiedName | None
) -> list[InboxStatus]:
    """Return what inboxes hold."""
    query = "SELECT * FROM pgtrickle.inbox_status(%s, '{}')"
    with connection.cursor(row_factory=class_row(InboxStatus)) as cursor:
        return cursor.execute(query, [None if name is None else name.sql]).fetchall()


def list_checks(connection: Connection[TupleRow], name: QualifiedName | None) -> list[InboxCheck]:
    """Return whether inboxes work."""
    query = "SELECT * FROM pgtrickle.inbox_health(%s, '{}')"
    with connection.cursor(row_factory=class_row(InboxCheck)) as cursor:
        return cursor.execute(query, [None if name is None else name.sql]).fetchall()


def list_gaps(
    connection: Connection[TupleRow], name: QualifiedName, most: int
) -> list[OrderingGap]:
    """Return where numbers are missing."""
    query = "SELECT * FROM pgtrickle.inbox_ordering_gaps(%s, %s, '{}')"
    with connection.cursor(row_factory=class_row(OrderingGap)) as cursor:
        return cursor.execute(query, [name.sql, most]).fetchall()


def replay(
    connection: Connection[TupleRow], name: QualifiedName, event_ids: list[str] | None
) -> int:
    """Let messages wait again that have failed for good; return how many."""
    query = "SELECT pgtrickle.replay_inbox_messages(%s, %s, '{}')"
    [[done]] = connection.execute(query, [name.sql, event_ids]).fetchall()
    return int(done)
