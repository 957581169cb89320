"""The stream tables of an inbox: their names and queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pgtrickle.catalog.inboxes.config import Inbox
from pgtrickle.model.text.names import QualifiedName, quote_identifier

PENDING: Final = "pending"
DEAD_LETTERS: Final = "dead_letters"
STATS: Final = "stats"
NEXT: Final = "next"
URGENT: Final = "urgent"
_SUFFIXES: Final = {
    PENDING: "_pending",
    DEAD_LETTERS: "_dlq",
    STATS: "_stats",
    NEXT: "_next",
    URGENT: "_urgent",
}
_COLUMNS: Final = (
    "event_id",
    "event_type",
    "source",
    "aggregate_id",
    "sequence_num",
    "priority",
    "payload",
    "trace_id",
    "received_at",
    "retry_count",
    "error",
)


def part_name(table: QualifiedName, part: str) -> QualifiedName:
    """Return the name of a stream table of an inbox.

    >>> str(part_name(QualifiedName("shop", "orders"), DEAD_LETTERS))
    'shop.orders_dlq'
    """
    return replace(table, name=table.name + _SUFFIXES[part])


def write_query(inbox: Inbox, part: str) -> str:
    """Return the query of a stream table of an inbox."""
    match part:
        case "pending":
            return _waiting(inbox, f"m.retry_count < {inbox.max_retries:d}")
        case "dead_letters":
            return _waiting(inbox, f"m.retry_count >= {inbox.max_retries:d}")
        case "next":
            return _next(inbox)
        case "urgent":
            return _urgent(inbox)
        case _:
            return _stats(inbox)


def _columns(inbox: Inbox, alias: str) -> str:
    ours = (inbox.aggregate_column, inbox.sequence_column, inbox.priority_column)
    listed = dict.fromkeys([*_COLUMNS, *(one for one in ours if one is not None)])
    return ", ".join(f"{alias}.{quote_identifier(one)}" for one in listed)


def _waiting(inbox: Inbox, which: str) -> str:
    return (
        f"SELECT {_columns(inbox, 'm')} FROM {inbox.table.sql} AS m"
        f" WHERE m.processed_at IS NULL AND {which}"
    )


def _next(inbox: Inbox) -> str:
    """Write the query of the next message of each aggregate.

    One that has failed for good holds back the later ones of its aggregate, unless it is skipped.
    A message without aggregate waits for no other one.
    """
    aggregate = f"m.{quote_identifier(inbox.aggregate_column or '')}"
    sequence = f"m.{quote_identifier(inbox.sequence_column or '')}"
    alive = f"retry_count < {inbox.max_retries:d}"
    first = (
        f"SELECT DISTINCT ON ({aggregate}) {_columns(inbox, 'm')} FROM {inbox.table.sql} AS m"
        f" WHERE m.processed_at IS NULL AND {aggregate} IS NOT NULL"
        f"{f' AND m.{alive}' if inbox.skip_dead_letters else ''}"
        f" ORDER BY {aggregate}, {sequence}, m.received_at, m.event_id"
    )
    free = _waiting(inbox, f"{aggregate} IS NULL AND m.{alive}")
    return f"SELECT {_columns(inbox, 'n')} FROM ({first}) AS n WHERE n.{alive} UNION ALL {free}"


def _urgent(inbox: Inbox) -> str:
    query = write_query(inbox, PENDING if inbox.aggregate_column is None else NEXT)
    priority = quote_identifier(inbox.priority_column or "")
    return (
        f"SELECT {_columns(inbox, 'u')} FROM ({query}) AS u"
        f" WHERE u.{priority} >= {inbox.urgent_from!r}"
    )


def _stats(inbox: Inbox) -> str:
    waits, most = "m.processed_at IS NULL", f"{inbox.max_retries:d}"
    return (
        "SELECT m.event_type, count(*) AS messages,"
        f" count(*) FILTER (WHERE {waits} AND m.retry_count < {most}) AS pending,"
        f" count(*) FILTER (WHERE {waits} AND m.retry_count >= {most}) AS dead_letters,"
        " count(*) FILTER (WHERE m.processed_at IS NOT NULL) AS processed,"
        " sum(m.retry_count) AS retries, max(m.received_at) AS last_received_at,"
        " max(m.processed_at) AS last_processed_at"
        f" FROM {inbox.table.sql} AS m GROUP BY m.event_type"
    )
