"""How a stream table of the database differs from what its file says.

A file says the query and the options in full: one that it leaves out has its default.  What the
file does not speak of at all, such as indexes and privileges that somebody added, stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from pgtrickle.model.definitions.dump import STREAM_TABLE, Described
from pgtrickle.model.projects.plan import FieldChange
from pgtrickle.model.projects.project import ProjectTable, ProjectTest
from pgtrickle.model.stream_table import RefreshMode
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.changes import read_options
from pgtrickle.options.stream_table import OPTIONS
from pgtrickle.service.lifecycle.definitions.compare import Difference, compare_stream_tables


def describe_wanted(table: ProjectTable, search_path: str) -> Described:
    """Describe a stream table of a project as the catalog describes those that exist."""
    item: dict[str, Any] = {
        "kind": STREAM_TABLE,
        "name": table.name.sql,
        "query": table.query,
        "search_path": search_path,
        "initialize": table.initialize,
        "status": "ACTIVE",
        "paused": False,
        "subscriptions": [],
        "table": dict(table.table),
        **table.options,
    }
    immediate = read_options(table.options).refresh_mode is RefreshMode.IMMEDIATE
    if table.sla_s is not None and not immediate:  # none applies to those that writers maintain
        item["sla_s"] = table.sla_s
    return item


def describe_test(test: ProjectTest) -> dict[str, Any]:
    """Describe a test as the catalog keeps it."""
    found = {key: one for key, one in asdict(test).items() if one not in (None, (), False)}
    if test.to is not None:
        found["to"] = test.to.sql
    return {key: list(one) if isinstance(one, tuple) else one for key, one in found.items()}


def read_test(described: Mapping[str, Any]) -> ProjectTest:
    """Read a test as the catalog keeps it."""
    said = dict(described)
    for key in ("columns", "values"):
        said[key] = tuple(said.get(key, ()))
    if "to" in said:
        said["to"] = QualifiedName.parse(said["to"])
    return ProjectTest(**said)


def compare_with_database(wanted: Described, found: Described) -> Difference:
    """Return what has to be done so that a stream table is as its file says."""
    given = dict(wanted)
    if str(found.get("sink")) == str(wanted.get("sink")):
        # A copy has chosen what the file leaves open, and cannot be asked what it would choose.
        for name, one in OPTIONS.items():
            if one.sink and name not in wanted and found.get(name) is not None:
                given[name] = found[name]
    difference = compare_stream_tables(given, found)
    if wanted["query"] == found["query"] and not wanted["search_path"]:
        difference.query = False
    return difference


def list_changes(
    wanted: Described, found: Described, difference: Difference
) -> Iterator[FieldChange]:
    """Yield the entries that differ, each with both texts."""
    if difference.query:
        yield FieldChange("query", found["query"], wanted["query"])
    theirs = read_options(found)
    for name, value in difference.options.values().items():
        if theirs.value(name) != value:
            yield FieldChange(name, _word(theirs.value(name)), _word(value))
    if difference.sla_s is not None:
        before = found.get("sla_s")
        yield FieldChange(
            "sla", None if before is None else f"{before:g}s", f"{difference.sla_s:g}s"
        )
    for key, value in difference.table.items():
        yield FieldChange(key, _short(found["table"].get(key)), _short(value))
    if difference.load:
        yield FieldChange("initialize", "false", "true")


def _word(value: object) -> str | None:
    return None if value is None else str(getattr(value, "value", value))


def _short(value: object) -> str | None:
    match value:
        case None:
            return None
        case list():
            return ", ".join(_name(one) for one in value)
        case Mapping():
            return ", ".join(f"{key} = {one}" for key, one in value.items())
        case _:
            return str(value)


def _name(value: object) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    if "comment" in value and "column" in value:
        return f"{value['column']}: {value['comment']}"
    if "privileges" in value:
        return f"{', '.join(value['privileges'])} to {value.get('to', 'PUBLIC')}"
    return f"{value.get('kind')} {value.get('name')} {value.get('definition')}"
