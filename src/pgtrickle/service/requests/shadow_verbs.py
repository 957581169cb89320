"""The verbs of requests on shadow builds; ``alter_stream_table`` begins them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgtrickle.model.shadows.difference import ShadowDiff
from pgtrickle.model.text.json_values import json_row
from pgtrickle.service.lifecycle.shadows.cancel import cancel_shadow
from pgtrickle.service.lifecycle.shadows.compare import compare_shadow
from pgtrickle.service.lifecycle.shadows.promote import promote_shadow
from pgtrickle.service.requests.caller import check_may_act_as_server, get_own_stream_table

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask

_MOST_ROWS = 10_000  # of an answer


def promote(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Put the query of a shadow in force."""
    stream_table = get_own_stream_table(ask, given["name"])
    report = promote_shadow(ask.runtime, stream_table.name)
    return {
        "name": report.stream_table,
        "refresh_id": report.refresh_id,
        "action": report.action.value,
        "reason": report.reason,
        "rows_inserted": report.rows_inserted,
        "rows_deleted": report.rows_deleted,
        "duration_ms": round(report.duration_ms, 3),
    }


def cancel(ask: Ask, given: Mapping[str, Any]) -> Any:
    """End a shadow build."""
    stream_table = get_own_stream_table(ask, given["name"])
    return {"cancelled": str(cancel_shadow(ask.runtime, stream_table.name))}


def compare(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Compare a stream table with its shadow, whose rows are read with the server's rights."""
    stream_table = get_own_stream_table(ask, given["name"])
    check_may_act_as_server(ask)
    most = min(given.get("max_rows", 100), _MOST_ROWS)
    return describe_difference(compare_shadow(ask.runtime, stream_table.name, most))


def describe_difference(found: ShadowDiff) -> dict[str, Any]:
    """Write a difference as JSON, which has no exact decimals and no moments."""
    moments = {
        "data_timestamp": found.data_timestamp,
        "shadow_data_timestamp": found.shadow_data_timestamp,
    }
    return {
        "stream_table": found.stream_table,
        "same": found.same,
        "same_moment": found.same_moment,
        **{name: None if at is None else at.isoformat() for name, at in moments.items()},
        "note": found.note,
        "columns_added": list(found.columns_added),
        "columns_dropped": list(found.columns_dropped),
        "columns_retyped": list(found.columns_retyped),
        "compared_columns": list(found.compared_columns),
        "rows": found.rows,
        "shadow_rows": found.shadow_rows,
        "rows_added": found.rows_added,
        "rows_removed": found.rows_removed,
        "changes": [
            {"change": one.change, "copies": one.copies, "row": json_row(one.row)}
            for one in found.changes
        ],
        "complete": found.complete,
    }
