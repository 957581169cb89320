"""How what exists differs from what a dump says: what is missing, and what is something else.

What is missing is added, so a restoration that was interrupted goes on.  What is something else is
refused, or replaced if the user says so.  What exists beyond the dump stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgtrickle.model.definitions.dump import Described
from pgtrickle.options.changes import Changes, read_options
from pgtrickle.options.stream_table import OPTIONS, StreamTableOptions


@dataclass(slots=True)
class Difference:
    """What has to be done so that a stream table, or a view, is as the dump says."""

    query: bool = False  # it gets another one
    options: Changes = field(default_factory=Changes)
    table: dict[str, Any] = field(default_factory=dict)  # of ``describe_table``, what is missing
    subscriptions: list[Described] = field(default_factory=list)
    sla_s: float | None = None  # the service level that it gets
    outbox: Described = field(default_factory=dict)  # what the outbox keeps that it gets
    suspend: bool = False
    pause: bool = False
    load: bool = False
    removed: list[Described] = field(default_factory=list)  # objects that others replace
    conflicts: list[str] = field(default_factory=list)  # what is not missing but something else

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        more = self.suspend or self.pause or self.load
        more = more or self.sla_s is not None or bool(self.outbox)
        parts = (self.query, self.options, self.table, self.subscriptions, self.removed, more)
        return any(map(bool, parts))


def compare_stream_tables(
    wanted: Described, found: Described, placeholder: str | None = None
) -> Difference:
    """Compare the definition of a dump with the one that exists.

    ``placeholder`` is the query that a member of a circle has until it gets its own.
    """
    difference = Difference()
    if any(wanted[key] != found[key] for key in ("query", "search_path")):
        difference.query = True
        if found["query"] != placeholder:
            difference.conflicts.append("its query is another")
    _compare_options(wanted, found, difference)
    _compare_tables(wanted["table"], found["table"], difference)
    held = {one["channel"] for one in found["subscriptions"]}
    difference.subscriptions = [
        one for one in wanted["subscriptions"] if one["channel"] not in held
    ]
    _compare_service_levels(wanted, found, difference)
    _compare_outboxes(wanted, found, difference)
    difference.suspend = wanted["status"] == "SUSPENDED" != found["status"]
    difference.pause = wanted["paused"] and not found["paused"]
    difference.load = wanted["initialize"] and not found["initialize"]
    return difference


def compare_views(wanted: Described, found: Described) -> Difference:
    """Compare a view of a dump with the one that exists."""
    difference = Difference()
    if wanted["definition"] != found["definition"]:
        difference.query = True
        difference.conflicts.append("its query is another")
    _compare_tables(wanted["table"], found["table"], difference)
    return difference


def _compare_options(wanted: Described, found: Described, difference: Difference) -> None:
    kept = frozenset(name for name, one in OPTIONS.items() if one.kept)
    theirs, default = read_options(found), StreamTableOptions()
    difference.options = Changes(read_options(wanted), kept).differing_from(theirs)
    for name, value in difference.options.values().items():
        there = theirs.value(name)
        if there not in (value, default.value(name)):
            difference.conflicts.append(f"{name} is {_word(there)}, not {_word(value)}")


def _compare_service_levels(wanted: Described, found: Described, difference: Difference) -> None:
    promised, there = wanted.get("sla_s"), found.get("sla_s")
    if promised in {None, there}:
        return
    difference.sla_s = promised
    if there is not None:
        difference.conflicts.append(f"its service level is {there:g} s, not {promised:g} s")


def _compare_outboxes(wanted: Described, found: Described, difference: Difference) -> None:
    kept, there = wanted.get("outbox"), found.get("outbox")
    if kept is None or kept == there:
        return
    difference.outbox = kept
    if there is not None:
        difference.conflicts.append("its outbox keeps something else")


def _word(value: object) -> str:
    return str(getattr(value, "value", value))


def _compare_tables(wanted: Described, found: Described, difference: Difference) -> None:
    rest, conflicts = difference.table, difference.conflicts
    if wanted.get("comment") != found.get("comment") and "comment" in wanted:
        rest["comment"] = wanted["comment"]
        if "comment" in found:
            conflicts.append("its comment is another")
    comments = _by(found.get("column_comments", ()), "column")
    for one in wanted.get("column_comments", ()):
        if comments.get(one["column"]) != one:
            rest.setdefault("column_comments", []).append(one)
            if one["column"] in comments:
                conflicts.append(f"the comment of its column {one['column']} is another")
    given = found.get("storage_parameters", {})
    for name, value in wanted.get("storage_parameters", {}).items():
        if given.get(name) != value:
            rest.setdefault("storage_parameters", {})[name] = value
            if name in given:
                conflicts.append(f"its parameter {name} is {given[name]}, not {value}")
    _compare_objects(wanted, found, difference)
    _compare_identity(wanted, found, difference)
    security = wanted.get("row_security")
    if security not in {None, found.get("row_security")}:
        rest["row_security"] = security
        if found.get("row_security") == "forced":
            conflicts.append("its row security is forced")
    grants = [one for one in wanted.get("grants", ()) if not _is_granted(one, found)]
    if grants:
        rest["grants"] = grants


def _compare_objects(wanted: Described, found: Described, difference: Difference) -> None:
    there = {(one["kind"], one["name"]): one for one in found.get("objects", ())}
    for one in wanted.get("objects", ()):
        other = there.get((one["kind"], one["name"]))
        if other == one:
            continue
        difference.table.setdefault("objects", []).append(one)
        if other is None or other == {key: one[key] for key in other if key in one}:
            continue  # a part of it, such as its comment, is missing
        difference.conflicts.append(f"its {one['kind']} {one['name']} is another")
        difference.removed.append(other)


def _compare_identity(wanted: Described, found: Described, difference: Difference) -> None:
    keys = ("replica_identity", "replica_index")
    if keys[0] not in wanted or all(wanted.get(key) == found.get(key) for key in keys):
        return
    difference.table |= {key: wanted[key] for key in keys if key in wanted}
    if keys[0] in found:
        difference.conflicts.append("its replica identity is another")


def _is_granted(grant: Described, found: Described) -> bool:
    """Return whether the privileges of a grant are given already."""
    key = ("to", "column")
    needed = set(grant["privileges"])
    for one in found.get("grants", ()):
        same = all(one.get(part) == grant.get(part) for part in key)
        if same and (one.get("grantable") or not grant.get("grantable")):
            needed -= set(one["privileges"])
    return not needed


def _by(entries: Sequence[Described], key: str) -> dict[str, Described]:
    return {one[key]: one for one in entries}


def list_roles(wanted: Described) -> Iterator[str]:
    """Yield the roles that a stream table or a view needs."""
    table = wanted.get("table", {})
    yield from (one["to"] for one in table.get("grants", ()) if one.get("to") is not None)
    for one in table.get("objects", ()):
        yield from one.get("roles", ())
    yield from (one["role"] for one in wanted.get("subscriptions", ()))
