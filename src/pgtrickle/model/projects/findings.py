"""What the tests of a project found, and how its files differ from a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pgtrickle.model.projects.plan import FieldChange
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown

PASSED, WARNED, FAILED = "pass", "warn", "fail"


@dataclass(frozen=True, slots=True)
class ProjectTestResult(Shown):
    """Whether a statement about the rows of a stream table holds."""

    in_listing: ClassVar[tuple[str, ...]] = ("stream_table", "test", "status", "rows", "problem")

    stream_table: QualifiedName
    test: str
    status: str  # pass, warn or fail
    rows: int | None  # that contradict it; None: the test could not be run
    sample: tuple[Mapping[str, Any], ...] = ()  # of those rows
    query: str = ""  # that finds them
    problem: str | None = None  # why it could not be run
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ProjectDifference(Shown):
    """How one stream table differs from its file."""

    in_listing: ClassVar[tuple[str, ...]] = ("name", "action", "drifted")

    name: QualifiedName
    action: str
    drifted: bool
    changes: tuple[FieldChange, ...]
    text: str  # the same for people, with the lines of the query


@dataclass(frozen=True, slots=True)
class WrittenProject(Shown):
    """The files that were written."""

    path: str
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what could not be written, and why
