"""The verbs of requests that attach tables of the lake, and detach them.

The server reads the files and owns the rows, so the caller must be able to act as it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgtrickle.service.lake_source import attach_ducklake_table, detach_ducklake_table
from pgtrickle.service.requests.caller import check_may_act_as_server, name_for_creation

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask


def attach(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Follow a table of the lake."""
    check_may_act_as_server(ask)
    columns = given.get("columns")
    source = attach_ducklake_table(
        ask.runtime,
        name_for_creation(ask, given["name"]),
        given["lake_table"],
        columns=None if columns is None else [str(one) for one in columns],
        catalog_schema=given.get("catalog_schema"),
        compaction_policy=given.get("compaction_policy"),
    )
    return {"name": str(source.landing), "snapshot_id": source.snapshot_id}


def detach(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Follow a table of the lake no longer."""
    check_may_act_as_server(ask)
    source = detach_ducklake_table(ask.runtime, name_for_creation(ask, given["name"]))
    return {"name": str(source.landing)}
