"""The statements of ``explain`` and ``validate`` about a query, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """The law that derives an operator's change from the changes of its inputs."""

    name: str
    file: str  # below the package
    law: str


@dataclass(frozen=True, slots=True)
class StateTable:
    """A table that an operator keeps between refreshes."""

    name: str
    holds: str


@dataclass(frozen=True, slots=True)
class ReadNote:
    """One query that a refresh sends to PostgreSQL, and what it costs."""

    relation: str  # its name in the engine's SQL
    source: str
    kind: str
    bounded_by: str
    sql: str
    why_unbounded: str | None  # None: the read is bounded
    missing_indexes: tuple[str, ...]  # without one of these the bounded read scans its table


@dataclass(frozen=True, slots=True)
class Operator:
    """One node of the tree that a refresh works through."""

    kind: str
    description: str
    stage: str
    rule: Rule
    state: tuple[StateTable, ...]
    reads: tuple[ReadNote, ...]
    inputs: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class StageNote:
    """One round through the engine."""

    name: str
    delta: str
    state: tuple[StateTable, ...]
    reads: tuple[ReadNote, ...]
    engine: str  # that computes it
    why_engine: str | None  # None: any engine could
    engine_sql: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query is maintained when every source has changed."""

    tree: Operator
    stages: tuple[StageNote, ...]

    @property
    def reads(self) -> tuple[ReadNote, ...]:
        """The reads of all stages, in the order they run."""
        return tuple(read for stage in self.stages for read in stage.reads)

    @property
    def missing_indexes(self) -> tuple[str, ...]:
        """The indexes to create, each once."""
        return tuple(dict.fromkeys(one for read in self.reads for one in read.missing_indexes))
