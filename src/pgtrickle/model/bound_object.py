"""The objects that a query was bound to: its relations, functions, operators and types.

PostgreSQL resolves names whenever it parses a text.  So the objects that it found when a stream
table was created are recorded, and compared (see docs/adr/0030).  Objects are identified by class
and qualified name with signature: oids differ after a dump was restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RELATION = "relation"


@dataclass(frozen=True, slots=True)
class BoundObject:
    """One object that a query uses, and its owner."""

    class_: str  # "relation", "function", "operator", "type" or "collation"
    oid: int
    kind: str  # as PostgreSQL calls it: "table", "view", "aggregate", ...
    name: str  # qualified and quoted, of a function with the types of its arguments
    owner: str
    owner_oid: int
    direct: bool  # named by the query itself, not by a view that it reads
    candidates: str  # other objects of its name, which a call could mean later
    trusted: bool = True  # its owner is now a superuser, or the compiling role

    @property
    def called(self) -> bool:
        """Whether it is looked up by name and signature when the query runs."""
        return self.class_ in {"function", "operator"}

    @property
    def label(self) -> str:
        """Describe the object, with its owner."""
        return f"{self.kind} {self.name} of {self.owner}"

    def to_json(self) -> dict[str, Any]:
        """Return the value stored in the catalog."""
        return {
            "class": self.class_,
            "oid": self.oid,
            "kind": self.kind,
            "name": self.name,
            "owner": self.owner,
            "owner_oid": self.owner_oid,
            "direct": self.direct,
            "candidates": self.candidates,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BoundObject:
        """Read the output of ``to_json``."""
        return cls(
            class_=str(value["class"]),
            oid=int(value["oid"]),
            kind=str(value["kind"]),
            name=str(value["name"]),
            owner=str(value["owner"]),
            owner_oid=int(value["owner_oid"]),
            direct=bool(value["direct"]),
            candidates=str(value["candidates"]),
        )


def explain_changes(
    before: Sequence[BoundObject], now: Sequence[BoundObject], roles: Mapping[str, int]
) -> list[str]:
    """Describe how the objects of a query differ from the recorded ones; empty if they do not.

    ``roles`` has the oids of the recorded owners that still exist.  The contents of a view are the
    responsibility of its owner, as long as no object in it gets another owner.

    >>> was = BoundObject("relation", 1, "table", "shop.t", "ann", 10, True, "")
    >>> explain_changes([was], [was], {"ann": 10})
    []
    >>> from dataclasses import replace
    >>> explain_changes([was], [replace(was, oid=2, kind="view", owner="bob")], {"ann": 10})
    ['table shop.t of ann -> view shop.t of bob']
    """
    known = {(one.class_, one.name): one for one in before}
    found = {(one.class_, one.name): one for one in now}
    changed = [
        f"{was.label} -> {found[key].label}"
        for key, was in known.items()
        if key in found and _changed_hands(was, found[key], roles)
    ]
    lost = [one for key, one in known.items() if one.direct and key not in found]
    gained = [one for key, one in found.items() if one.direct and key not in known]
    return [*changed, *_pairs(lost, gained)]


def _changed_hands(was: BoundObject, now: BoundObject, roles: Mapping[str, int]) -> bool:
    if was.kind != now.kind:
        return True
    renamed = was.owner_oid == now.owner_oid and was.owner not in roles
    if was.owner == now.owner or renamed:
        return False
    # The owner of a relation decides its contents; the owner of a function decides what runs.
    return was.class_ == RELATION or not now.trusted


def _pairs(lost: Sequence[BoundObject], gained: Sequence[BoundObject]) -> Iterator[str]:
    """Yield pairs of old and new objects, as far as names match."""
    left = list(gained)
    for was in lost:
        rival = next((one for one in left if _bare(one) == _bare(was)), None)
        if rival is None:
            yield f"{was.label} is not used any more"
        else:
            left.remove(rival)
            yield f"{was.label} -> {rival.label}"
    for one in left:
        yield f"{one.label} is used now"


def _bare(one: BoundObject) -> tuple[str, str]:
    return one.class_, one.name.split("(", 1)[0]
