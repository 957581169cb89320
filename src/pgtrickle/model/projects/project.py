"""A project as its files say: names resolved and variables put in, for one target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pgtrickle.model.text.names import QualifiedName

Value: TypeAlias = str | int | float | bool | None
REPLACE, SHADOW = "replace", "shadow"  # how another query takes effect


@dataclass(frozen=True, slots=True)
class ProjectTest:
    """A statement about the rows of a stream table, and how grave it is if it does not hold."""

    name: str
    kind: str  # unique, not_null, accepted_values, relationships or query
    warns: bool = False  # it fails the run unless it only warns
    columns: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()
    to: QualifiedName | None = None
    field: str | None = None
    query: str | None = None  # whose rows contradict the statement


@dataclass(frozen=True, slots=True)
class ProjectTable:
    """A stream table as its file says."""

    name: QualifiedName
    file: str  # in the folder of the project
    template: str  # its query as written
    query: str  # with names and values in place
    refs: tuple[QualifiedName, ...] = ()  # the stream tables of the project that it reads
    options: Mapping[str, Any] = field(default_factory=dict)  # words, by the name of the option
    initialize: bool = True
    search_path: str | None = None  # None: that of the session
    table: Mapping[str, Any] = field(default_factory=dict)  # comment, indexes, grants and so on
    sla_s: float | None = None
    on_change: str = REPLACE
    allow_breaking: bool = False
    owner: str | None = None
    tags: tuple[str, ...] = ()
    tests: tuple[ProjectTest, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """The stream tables of a folder for one target, each after those that it reads."""

    name: str
    path: str
    target: str
    tables: tuple[ProjectTable, ...]
