"""``restore_definitions``: make what a dump says, through the verbs that users have.

What exists and agrees with the dump is left alone, and what is missing of it is added.  So a
restoration that was interrupted is completed by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from psycopg import Connection

from pgtrickle.catalog.definitions import (
    alter_table,
    describe_scheduling,
    list_access,
    list_settings,
    replace_view,
    subscribe_as,
)
from pgtrickle.catalog.restored import adopt_stream_tables
from pgtrickle.catalog.scheduling.holds import pause_scheduler
from pgtrickle.catalog.scheduling.service_levels import set_service_level
from pgtrickle.catalog.stream_tables import find_stream_table, get_stream_table, update_status
from pgtrickle.model.definitions.dump import (
    COMPLETED,
    CREATED,
    PLACEHOLDER,
    REPLACED,
    UNCHANGED,
    VIEW,
    Described,
    Dump,
    RestoredItem,
)
from pgtrickle.model.stream_table import InitiatedBy, Status
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.changes import read_options
from pgtrickle.options.stream_table import OPTIONS, StreamTableOptions
from pgtrickle.service.lifecycle.alter import alter_stream_table
from pgtrickle.service.lifecycle.create import create_stream_table
from pgtrickle.service.lifecycle.definitions.compare import Difference
from pgtrickle.service.lifecycle.definitions.files import read_dump_files
from pgtrickle.service.lifecycle.definitions.obstacles import (
    check_restorable,
    find_difference,
    list_other_groups,
)
from pgtrickle.service.lifecycle.definitions.rows import load_rows
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.outboxes.enable import enable
from pgtrickle.service.refreshing.dispatch import refresh_when_free
from pgtrickle.service.runtime import Runtime

Tell = Callable[[RestoredItem], object]


class Verbs(Protocol):
    """The verbs on everything but stream tables, as the client has them."""

    def set_setting(self, name: str, value: str) -> None:
        """Set a setting for this database."""

    def grant_access(self, role: str, level: str) -> None:
        """Give a role a level of access."""

    def attach_lake_table(self, described: Described) -> None:
        """Attach a table of the lake, unless it is."""

    def gate_source(self, source: str) -> None:
        """Hold back the consumers of a source."""

    def advance_watermark(self, source: str, watermark: datetime) -> None:
        """Record up to when a source is complete."""

    def create_watermark_group(
        self, name: str, sources: Sequence[str], tolerance_secs: float
    ) -> None:
        """Make a watermark group."""

    def drop_watermark_group(self, name: str) -> None:
        """Drop a watermark group."""

    def create_refresh_group(self, name: str, members: Sequence[str], isolation: Any) -> None:
        """Make a refresh group."""

    def drop_refresh_group(self, name: str) -> None:
        """Drop a refresh group."""


def restore_definitions(
    runtime: Runtime, path: Path, verbs: Verbs, tell: Tell, *, replace: bool = False
) -> list[RestoredItem]:
    """Restore a dump; ``tell`` is called after each stream table and view.

    Raises ST223, ST224, ST228 or ST229 before anything is changed.  ``replace``: what exists with
    another definition becomes what the dump says.
    """
    dump = read_dump_files(path)
    with runtime.connection() as connection:
        adopt_stream_tables(connection)  # of a restored database that was not refreshed yet
        check_restorable(runtime, connection, dump, replace=replace)
        _restore_database(connection, dump, verbs)
    restored = []
    for item in dump.items:
        if item["kind"] == PLACEHOLDER:
            _restore_placeholder(runtime, item)
            continue
        restore = _restore_view if item["kind"] == VIEW else _restore_stream_table
        restored.append(restore(runtime, dump, item))
        tell(restored[-1])
    with runtime.connection() as connection:
        _suspend(connection, dump)
        present = describe_scheduling(connection)
    _restore_scheduling(dump.described, present, verbs)
    return restored


def _restore_database(connection: Connection, dump: Dump, verbs: Verbs) -> None:
    """Restore settings, access and attached tables of the lake."""
    settings, access = list_settings(connection), list_access(connection)
    for name, value in dump.described["settings"].items():
        if settings.get(name) != value:
            verbs.set_setting(name, value)
    for one in dump.described["access"]:
        if access.get(one["role"]) != one["level"]:
            verbs.grant_access(one["role"], one["level"])
    for one in dump.described["lake_tables"]:
        verbs.attach_lake_table(one)


def _restore_placeholder(runtime: Runtime, item: Described) -> None:
    name = QualifiedName.parse(item["name"])
    with runtime.connection() as connection:
        found = find_stream_table(connection, name)
    if found is None:
        create_stream_table(runtime, name, item["query"], StreamTableOptions(), search_path="")


def _restore_view(runtime: Runtime, dump: Dump, item: Described) -> RestoredItem:
    name = QualifiedName.parse(item["name"])
    with runtime.connection() as connection:
        difference = find_difference(connection, dump, item)
        status = _status(difference)

        def transaction() -> None:
            if difference is None or difference.query:
                replace_view(connection, name, item["definition"])
            rest = find_difference(connection, dump, item)
            if rest is not None:
                alter_table(connection, name, VIEW, rest.table, rest.removed)

        until_free(runtime, connection, transaction)
    return RestoredItem(str(name), status)


def _status(difference: Difference | None) -> str:
    """Return in a word what comes to be done."""
    if difference is None:
        return CREATED
    if not difference:
        return UNCHANGED
    return REPLACED if difference.conflicts else COMPLETED


def _restore_stream_table(runtime: Runtime, dump: Dump, item: Described) -> RestoredItem:
    name, rows = QualifiedName.parse(item["name"]), dump.rows.get(item["name"])
    difference = _find_difference(runtime, dump, item)
    status = _status(difference)
    if difference is None:
        words = {key: item.get(key) for key, one in OPTIONS.items() if one.kept}
        options = replace(read_options(words), initialize=item["initialize"] and rows is None)
        create_stream_table(runtime, name, item["query"], options, search_path=item["search_path"])
        difference = _find_difference(runtime, dump, item) or Difference()
    elif difference.query or difference.options:
        query = item["query"] if difference.query else None
        path = item["search_path"]
        alter_stream_table(runtime, name, difference.options, query=query, search_path=path)
    loaded = None
    if difference.load and rows is not None:
        loaded = load_rows(runtime, name, rows)
    elif difference.load:
        # A process that died while it loaded may still hold the lease for a while.
        refresh_when_free(runtime, name, initiated_by=InitiatedBy.INITIAL)
    _restore_table(runtime, name, difference)
    return RestoredItem(str(name), status, loaded)


def _suspend(connection: Connection, dump: Dump) -> None:
    """Suspend at last: what is refreshed together with a suspended stream table cannot be."""
    for item in dump.items:
        if item.get("status") == Status.SUSPENDED.value:
            stream_table = get_stream_table(connection, QualifiedName.parse(item["name"]))
            if stream_table.status is not Status.SUSPENDED:
                update_status(connection, stream_table.id, Status.SUSPENDED)


def _find_difference(runtime: Runtime, dump: Dump, item: Described) -> Difference | None:
    with runtime.connection() as connection:
        return find_difference(connection, dump, item)


def _restore_table(runtime: Runtime, name: QualifiedName, difference: Difference) -> None:
    """Add what is not an option: to the table, all at once, then subscriptions and pauses."""
    with runtime.connection() as connection:
        if difference.table:
            table, removed = difference.table, difference.removed
            until_free(
                runtime,
                connection,
                lambda: alter_table(connection, name, "table", table, removed),
            )
        if difference.sla_s is not None:
            set_service_level(connection, get_stream_table(connection, name).id, difference.sla_s)
        for one in difference.subscriptions:
            subscribe_as(connection, name, one["channel"], one["role"])
        if difference.pause:
            pause_scheduler(connection, [get_stream_table(connection, name).id])
    if difference.outbox:
        enable(runtime, name, **difference.outbox)


def _restore_scheduling(wanted: Described, present: Described, verbs: Verbs) -> None:
    for source in wanted["gates"]:
        if source not in present["gates"]:
            verbs.gate_source(source)
    moments = {one["source"]: _moment(one) for one in present["watermarks"]}
    for one in wanted["watermarks"]:
        there = moments.get(one["source"])
        if there is None or there < _moment(one):  # it never goes back
            verbs.advance_watermark(one["source"], _moment(one))
    for kind, group in list_other_groups(wanted, present):
        drop = verbs.drop_refresh_group
        (drop if kind == "refresh_groups" else verbs.drop_watermark_group)(str(group["name"]))
    for one in _missing_groups("watermark_groups", wanted, present):
        verbs.create_watermark_group(one["name"], one["sources"], one["tolerance_secs"])
    for one in _missing_groups("refresh_groups", wanted, present):
        verbs.create_refresh_group(one["name"], one["members"], one["isolation"])


def _missing_groups(kind: str, wanted: Described, present: Described) -> list[Mapping[str, Any]]:
    return [one for one in wanted[kind] if one not in present[kind]]


def _moment(watermark: Described) -> datetime:
    return datetime.fromisoformat(watermark["watermark"])
