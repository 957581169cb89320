"""The verbs of requests that make, order and drop inboxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgtrickle.catalog.inboxes.config import Inbox, get_inbox
from pgtrickle.errors import InboxMissingError
from pgtrickle.model.streams.inbox import (
    INBOX_RETENTION_HOURS,
    MAX_RETRIES,
    SCHEDULE_SECONDS,
    URGENT_FROM,
    URGENT_SECONDS,
    inbox_name,
)
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.inboxes import order
from pgtrickle.service.inboxes.create import create_inbox
from pgtrickle.service.inboxes.drop import drop_inbox
from pgtrickle.service.requests.caller import check_may_act_as_server, name_for_creation

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask


def create(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Create an inbox, for a caller who may act as the server."""
    check_may_act_as_server(ask)
    schema = given.get("schema")
    if schema is None:
        name = name_for_creation(ask, given["name"])
    else:
        name = inbox_name(given["name"], schema)
    made = create_inbox(
        ask.runtime,
        name,
        max_retries=given.get("max_retries", MAX_RETRIES),
        with_dead_letter=given.get("with_dead_letter", True),
        with_stats=given.get("with_stats", True),
        schedule_seconds=given.get("schedule_seconds", SCHEDULE_SECONDS),
        retention_hours=given.get("retention_hours", INBOX_RETENTION_HOURS),
    )
    return {"inbox": str(name), "stream_tables": made}


def drop(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Drop an inbox, for a caller who may act as the server."""
    check_may_act_as_server(ask)
    try:
        name = _find(ask, given["name"]).table
    except InboxMissingError:
        if given.get("if_exists"):
            return {"dropped": []}
        raise
    return {"dropped": drop_inbox(ask.runtime, name)}


def enable_ordering(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Order an inbox, for a caller who may act as the server."""
    check_may_act_as_server(ask)
    made = order.enable_ordering(
        ask.runtime,
        _find(ask, given["name"]).table,
        given.get("aggregate_column", "aggregate_id"),
        given.get("sequence_column", "sequence_num"),
        skip_dead_letters=bool(given.get("skip_dead_letters")),
    )
    return {"stream_table": made}


def disable_ordering(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Take the order of an inbox away, for a caller who may act as the server."""
    check_may_act_as_server(ask)
    return {"ended": order.disable_ordering(ask.runtime, _find(ask, given["name"]).table)}


def enable_priority(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Follow urgent messages apart, for a caller who may act as the server."""
    check_may_act_as_server(ask)
    made = order.enable_priority(
        ask.runtime,
        _find(ask, given["name"]).table,
        given.get("priority_column", "priority"),
        given.get("urgent_from", URGENT_FROM),
        given.get("schedule_seconds", URGENT_SECONDS),
    )
    return {"stream_table": made}


def disable_priority(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Take the stream table of urgent messages away, for a caller who may act as the server."""
    check_may_act_as_server(ask)
    return {"ended": order.disable_priority(ask.runtime, _find(ask, given["name"]).table)}


def _find(ask: Ask, text: str) -> Inbox:
    """Return the inbox that the caller names, the first on the search path."""
    with ask.runtime.connection() as connection:
        for schema in ask.request.schemas:
            try:
                return get_inbox(connection, QualifiedName.parse(text, schema))
            except InboxMissingError:
                continue
        return get_inbox(connection, QualifiedName.parse(text, ""))
