"""Order and priority of an inbox: stream tables that are made and dropped with them."""

from __future__ import annotations

from dataclasses import replace

from pgtrickle.catalog.inboxes.config import (
    Inbox,
    get_inbox,
    list_columns,
    list_parts,
    set_ordering,
    set_priority,
)
from pgtrickle.errors import InboxError
from pgtrickle.model.streams.inbox import URGENT_FROM, URGENT_SECONDS, check_seconds
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.inboxes.create import create_part
from pgtrickle.service.inboxes.parts import NEXT, URGENT
from pgtrickle.service.lifecycle.drop import drop_stream_table
from pgtrickle.service.runtime import Runtime

_NUMBERS = frozenset({20, 21, 23, 700, 701, 1700})  # oids of the types of numbers


def enable_ordering(
    runtime: Runtime,
    name: QualifiedName,
    aggregate_column: str = "aggregate_id",
    sequence_column: str = "sequence_num",
    *,
    skip_dead_letters: bool = False,
) -> str:
    """Order an inbox by sequences within aggregates; return the stream table of next messages."""
    inbox = _get(runtime, name)
    _check_column(runtime, inbox, aggregate_column)
    _check_column(runtime, inbox, sequence_column, number=True)
    ordered = replace(
        inbox,
        aggregate_column=aggregate_column,
        sequence_column=sequence_column,
        skip_dead_letters=skip_dead_letters,
    )
    _change(runtime, inbox, ordered)
    return str(_parts(runtime, inbox)[NEXT])


def disable_ordering(runtime: Runtime, name: QualifiedName) -> bool:
    """Take the order of an inbox away; return whether it had one."""
    inbox = _get(runtime, name)
    if inbox.aggregate_column is None:
        return False
    free = replace(inbox, aggregate_column=None, sequence_column=None, skip_dead_letters=False)
    _change(runtime, inbox, free)
    return True


def enable_priority(
    runtime: Runtime,
    name: QualifiedName,
    priority_column: str = "priority",
    urgent_from: float = URGENT_FROM,
    schedule_seconds: int = URGENT_SECONDS,
) -> str:
    """Refresh urgent messages more often than the others; return their stream table."""
    check_seconds(schedule_seconds)
    if not abs(urgent_from) < 1e15:  # also not a number
        raise InboxError(
            f"a priority cannot be {urgent_from}", hint="Give urgent_from as a finite number."
        )
    inbox = _get(runtime, name)
    _check_column(runtime, inbox, priority_column, number=True)
    ranked = replace(
        inbox,
        priority_column=priority_column,
        urgent_from=urgent_from,
        urgent_seconds=schedule_seconds,
    )
    _change(runtime, inbox, ranked)
    return str(_parts(runtime, inbox)[URGENT])


def disable_priority(runtime: Runtime, name: QualifiedName) -> bool:
    """Take the stream table of urgent messages away; return whether there was one."""
    inbox = _get(runtime, name)
    if inbox.priority_column is None:
        return False
    _change(
        runtime, inbox, replace(inbox, priority_column=None, urgent_from=None, urgent_seconds=None)
    )
    return True


def _change(runtime: Runtime, old: Inbox, new: Inbox) -> None:
    """Drop the stream tables that depend on order and priority, and make those that are wanted.

    What is urgent follows the order, if there is one: so it is made anew with it.
    """
    parts = _parts(runtime, old)
    for part in (URGENT, NEXT):
        if part in parts:
            drop_stream_table(runtime, parts[part], cascade=False)
    if new.aggregate_column is not None:
        create_part(runtime, new, NEXT, new.schedule_seconds)
    if new.priority_column is not None:
        create_part(runtime, new, URGENT, new.urgent_seconds or URGENT_SECONDS)
    with runtime.connection() as connection, connection.transaction():
        set_ordering(connection, new)
        set_priority(connection, new)


def _get(runtime: Runtime, name: QualifiedName) -> Inbox:
    with runtime.connection() as connection:
        inbox = get_inbox(connection, name)
    inbox.check()
    return inbox


def _parts(runtime: Runtime, inbox: Inbox) -> dict[str, QualifiedName]:
    with runtime.connection() as connection:
        return list_parts(connection, inbox)


def _check_column(runtime: Runtime, inbox: Inbox, column: str, *, number: bool = False) -> None:
    with runtime.connection() as connection:
        columns = list_columns(connection, inbox)
    if column not in columns:
        raise InboxError(
            f'the table of the inbox {inbox.table} has no column "{column[:80]}"',
            hint="Name one of its columns, as it is stored, without quotes.",
        )
    if number and columns[column] not in _NUMBERS:
        raise InboxError(
            f'the column "{column[:80]}" of the inbox {inbox.table} holds no numbers',
            hint="Take a column of a numeric type.",
        )
