"""Everything that stands against the restoration of a dump, found before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from psycopg import Connection

from pgtrickle.catalog.definitions import (
    describe_scheduling,
    find_definition,
    is_undefined,
    list_access,
    list_missing,
    list_settings,
    print_view,
)
from pgtrickle.errors import (
    DefinitionDiffersError,
    DumpNotRestorableError,
    SettingError,
    TrickleError,
)
from pgtrickle.model.definitions.dump import PLACEHOLDER, STREAM_TABLE, VIEW, Described, Dump
from pgtrickle.model.scheduling.refresh_group import parse_isolation
from pgtrickle.model.scheduling.service_level import read_seconds
from pgtrickle.model.streams.outbox import check_outbox
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.changes import read_options
from pgtrickle.service.lifecycle.definitions.compare import (
    Difference,
    compare_stream_tables,
    compare_views,
    list_roles,
)
from pgtrickle.service.runtime import Runtime

_MOST_SHOWN = 100
_GROUPS = {"watermark_groups": "sources", "refresh_groups": "members"}


def check_restorable(
    runtime: Runtime, connection: Connection, dump: Dump, *, replace: bool
) -> None:
    """Raise ST228 with all that is missing, ST229 with all that is something else."""
    if missing := sorted({*_list_missing(runtime, connection, dump)}):
        raise DumpNotRestorableError(
            f"the dump cannot be restored here yet: {len(missing)} obstacles",
            detail=_lines(missing),
            hint="Nothing was changed. Remove the obstacles, then restore it again.",
        )
    if not replace and (conflicts := sorted(_list_conflicts(connection, dump))):
        raise DefinitionDiffersError(
            f"{len(conflicts)} things exist with another definition than in the dump",
            detail=_lines(conflicts),
            hint="Nothing was changed. Drop or rename what is not wanted, or replace it by what"
            " the dump says: --replace.",
        )


def _lines(found: list[str]) -> str:
    more = [f"and {len(found) - _MOST_SHOWN} more"] if len(found) > _MOST_SHOWN else []
    return "\n".join(found[:_MOST_SHOWN] + more)


def _list_missing(runtime: Runtime, connection: Connection, dump: Dump) -> Iterator[str]:
    names = {one["name"] for one in dump.items} | {
        one["name"] for one in dump.described["lake_tables"]
    }
    tables = [one for one in dump.items if one["kind"] == STREAM_TABLE]
    parsed = [QualifiedName.parse(one) for one in names]
    yield from list_missing(
        connection,
        roles=[
            *(role for one in dump.items for role in list_roles(one)),
            *(one["role"] for one in dump.described["access"]),
        ],
        subscribers=[one["role"] for table in tables for one in table["subscriptions"]],
        schemas=[one.schema for one in parsed],
        sources={source for table in tables for source in table["sources"]} - names,
        names=[one["name"] for one in tables],
    )
    uses = {(one["kind"], one["name"]) for table in tables for one in table["uses"]}
    yield from (
        f"the {kind} {name} does not exist"
        for kind, name in uses
        if is_undefined(connection, kind, name)
    )
    for one in dump.described["lake_tables"]:
        if is_undefined(connection, "type", f'"{one["catalog_schema"]}".ducklake_snapshot'):
            yield f"the lake's catalog is not in the schema {one['catalog_schema']}"
    if dump.placeholders and not runtime.settings.allow_circular:
        members = ", ".join(sorted(dump.placeholders))
        yield f"the setting allow_circular is off, and these form circles: {members}"
    yield from _list_mistakes(dump)


def _list_mistakes(dump: Dump) -> Iterator[str]:
    """Yield words that no option has: only a file that was edited has them."""
    for one in dump.items:
        if one["kind"] != STREAM_TABLE:
            continue
        try:
            read_options(one)
            if "sla_s" in one:
                read_seconds(one["sla_s"])
            if "outbox" in one:
                check_outbox(**one["outbox"])
        except TrickleError as error:
            yield f"{one['name']}: {error}"
    for one in dump.described["watermarks"]:
        try:
            moment = datetime.fromisoformat(one["watermark"])
        except ValueError:
            moment = datetime.min
        if moment.tzinfo is None:
            yield f"the watermark of {one['source']}: {one['watermark']!a} is no moment"
    for group in dump.described["refresh_groups"]:
        try:
            parse_isolation(group["isolation"])
        except SettingError as error:
            yield f"the refresh group {group['name']}: {error}"


def find_difference(connection: Connection, dump: Dump, item: Described) -> Difference | None:
    """Return how what exists differs from an item of a dump; None if it does not exist."""
    found = find_definition(connection, QualifiedName.parse(item["name"]))
    if found is None or (item["kind"] == VIEW) != (found["kind"] == VIEW):
        return None
    if item["kind"] == VIEW:
        if item["definition"] != (known := found["definition"]):
            printed = print_view(connection, item["definition"])
            item = {**item, "definition": known} if printed == known else item
        return compare_views(item, found)
    return compare_stream_tables(item, found, dump.placeholders.get(item["name"]))


def _list_conflicts(connection: Connection, dump: Dump) -> Iterator[str]:
    for item in dump.items:
        if item["kind"] == PLACEHOLDER:
            continue
        difference = find_difference(connection, dump, item)
        if difference is not None:
            yield from (f"{item['name']}: {one}" for one in difference.conflicts)
    settings = list_settings(connection)
    for name, value in dump.described["settings"].items():
        if settings.get(name, value) != value:
            yield f"the setting {name} is {settings[name]}, not {value}"
    access = list_access(connection)
    for one in dump.described["access"]:
        if access.get(one["role"], one["level"]) != one["level"]:
            yield f"the role {one['role']} is {access[one['role']]}, not {one['level']}"
    present = describe_scheduling(connection)
    for kind, group in list_other_groups(dump.described, present):
        yield f"the {kind.replace('_', ' ').rstrip('s')} {group['name']} is another"


def list_other_groups(
    wanted: Described, present: Described
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the groups that exist with other members or another tolerance or isolation."""
    for kind in _GROUPS:
        there = {one["name"]: one for one in present[kind]}
        for group in wanted[kind]:
            if there.get(group["name"], group) != group:
                yield kind, group
