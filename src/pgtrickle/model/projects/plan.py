"""What a project comes to in a database: one step for each stream table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pgtrickle.errors import TrickleError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown

# What is done with a stream table.
CREATE = "create"
ALTER = "alter"  # in place: nothing is computed anew
REBUILD = "rebuild"  # another query: computed beside the contents, which it then replaces
SHADOW = "shadow"  # the same as a shadow build, which follows its sources until it takes over
BUILDING = "building"  # that shadow build is under way
ADOPT = "adopt"  # it is as the file says, and nobody has recorded that it is of the project
DROP = "drop"
UNCHANGED = "unchanged"
REFUSED = "refused"
QUIET = frozenset({UNCHANGED, BUILDING})


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One entry of a definition that differs."""

    field: str
    before: str | None  # None: it has none
    after: str | None


@dataclass(frozen=True, slots=True)
class ProjectStep(Shown):
    """What is to be done with one stream table, and what that costs."""

    in_listing: ClassVar[tuple[str, ...]] = ("name", "action", "changed", "estimate", "file")

    name: QualifiedName
    action: str
    file: str | None  # None: no file says it any more
    changes: tuple[FieldChange, ...] = ()
    drifted: bool = False  # the file is as it was applied: the database was altered
    estimated_ms: float | None = None  # of the computation; None: nothing is computed
    locks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[TrickleError, ...] = ()  # why it is refused

    @property
    def changed(self) -> str:
        """The entries that differ, in a line."""
        return ", ".join(one.field for one in self.changes)

    @property
    def estimate(self) -> str:
        """The time of the computation, in a word."""
        ms = self.estimated_ms
        if ms is None:
            return ""
        return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


@dataclass(frozen=True, slots=True)
class ProjectPlan(Shown):
    """Everything that applying a project would do, in this order."""

    in_report: ClassVar[tuple[str, ...]] = ("project", "target", "schemas", "steps")

    project: str
    target: str
    steps: tuple[ProjectStep, ...]
    schemas: tuple[str, ...] = ()  # that are made first

    @property
    def pending(self) -> tuple[ProjectStep, ...]:
        """The steps that do something."""
        return tuple(one for one in self.steps if one.action not in QUIET)

    @property
    def refused(self) -> tuple[ProjectStep, ...]:
        """The steps that cannot be taken."""
        return tuple(one for one in self.steps if one.action == REFUSED)


@dataclass(frozen=True, slots=True)
class AppliedStep(Shown):
    """What was done with one stream table."""

    in_listing: ClassVar[tuple[str, ...]] = ("name", "status", "duration_ms")

    name: QualifiedName
    status: str  # created, altered, rebuilt, shadow begun, adopted, dropped, kept or unchanged
    duration_ms: float = 0.0
