"""The verbs of requests that read the lake, attach tables of it, detach them, move its catalog.

The server reads the files and owns the rows, so the caller must be able to act as it.  Each verb
imports its use case when it is asked for: a daemon without a lake needs no Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pgtrickle.service.requests.caller import (
    check_may_act_as_server,
    get_own_stream_table,
    name_for_creation,
)

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask


def move(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Move the tables of a lake's catalog to another schema."""
    from pgtrickle.service.sinks.ducklake.catalog_schema import move_catalog

    check_may_act_as_server(ask)
    return asdict(move_catalog(ask.runtime, given.get("to_schema"), given.get("from_schema")))


def show_past(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Return rows of a stream table as its copy in the lake had them."""
    from pgtrickle.service.sinks.ducklake.show_as_of import show_as_of

    name = get_own_stream_table(ask, given["name"]).name
    columns = _listed(given.get("columns"))
    return show_as_of(
        ask.runtime, name, given["as_of"], columns, given.get("max_rows", 100)
    ).to_json()


def attach(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Follow a table of the lake."""
    from pgtrickle.service.sources.ducklake.attach import attach_ducklake_table

    check_may_act_as_server(ask)
    source = attach_ducklake_table(
        ask.runtime,
        name_for_creation(ask, given["name"]),
        given["lake_table"],
        columns=_listed(given.get("columns")),
        catalog_schema=given.get("catalog_schema"),
        compaction_policy=given.get("compaction_policy"),
    )
    return {"name": str(source.landing), "snapshot_id": source.snapshot_id}


def detach(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Follow a table of the lake no longer."""
    from pgtrickle.service.sources.ducklake.attach import detach_ducklake_table

    check_may_act_as_server(ask)
    source = detach_ducklake_table(ask.runtime, name_for_creation(ask, given["name"]))
    return {"name": str(source.landing)}


def _listed(columns: list[Any] | None) -> list[str] | None:
    return None if columns is None else [str(one) for one in columns]
