"""The verbs of requests that take, restore and drop snapshots.

The server creates and drops tables with its own rights, so the caller must be able to act as it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgtrickle.catalog.snapshots.entries import find_snapshot
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.lifecycle.snapshots.drop import drop_snapshot, not_found
from pgtrickle.service.lifecycle.snapshots.restore import restore_from_snapshot
from pgtrickle.service.lifecycle.snapshots.take import snapshot_stream_table
from pgtrickle.service.requests.ask_daemon import WAITING
from pgtrickle.service.requests.caller import check_may_act_as_server, get_own_stream_table

if TYPE_CHECKING:  # which imports this module
    from collections.abc import Callable

    from pgtrickle.errors import LeaseHeldError
    from pgtrickle.model.stream_table import StreamTable
    from pgtrickle.service.requests.verbs import Ask


def take(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Take a snapshot."""
    stream_table = get_own_stream_table(ask, given["name"])
    check_may_act_as_server(ask)
    taken = when_free(
        lambda: snapshot_stream_table(
            ask.runtime,
            stream_table.name,
            given.get("target"),
            to_lake=bool(given.get("to_lake")),
        ),
        waiting=_tell_waiting(ask, stream_table),
        seconds=given.get("wait_seconds"),
    )
    return str(taken)


def restore(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Restore a stream table from a snapshot."""
    stream_table = get_own_stream_table(ask, given["name"])
    report = when_free(
        lambda: restore_from_snapshot(ask.runtime, stream_table.name, given["source"]),
        waiting=_tell_waiting(ask, stream_table),
        seconds=given.get("wait_seconds"),
    )
    return {
        "name": report.stream_table,
        "refresh_id": report.refresh_id,
        "action": report.action.value,
        "reason": report.reason,
        "rows_inserted": report.rows_inserted,
        "rows_deleted": report.rows_deleted,
        "duration_ms": round(report.duration_ms, 3),
    }


def drop(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Drop a snapshot, the first of this name on the caller's search path."""
    check_may_act_as_server(ask)
    names = [QualifiedName.parse(given["table"], one) for one in ask.request.schemas or ("",)]
    with ask.runtime.connection() as connection:
        found = next((one for one in names if find_snapshot(connection, one) is not None), None)
    if found is None:
        raise not_found(names[0])
    return {"dropped": str(drop_snapshot(ask.runtime, found))}


def _tell_waiting(ask: Ask, stream_table: StreamTable) -> Callable[[LeaseHeldError], None]:
    return lambda error: ask.notice(f"{stream_table.name}{WAITING}{error}")
