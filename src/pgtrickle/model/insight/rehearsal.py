"""The figures of a rehearsal: a refresh whose stages really run, and which is rolled back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from pgtrickle.model.report import SourceRead
from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class ScannedTable:
    """One table in a plan of PostgreSQL: how it was read, and what that took."""

    relation: str
    node: str  # "Index Scan", "Seq Scan", ...
    index: str | None
    rows: int  # of all loops together
    loops: int
    shared_hit_blocks: int
    shared_read_blocks: int


@dataclass(frozen=True, slots=True)
class StatementFigures:
    """One statement of PostgreSQL, and its plan as PostgreSQL measured it."""

    step: str  # "read", "compute", "stage", "merge" or "apply"
    sql: str
    rows: int
    ms: float
    shared_hit_blocks: int
    shared_read_blocks: int
    tables: tuple[ScannedTable, ...]
    plan: Mapping[str, Any]  # as EXPLAIN writes it in JSON


@dataclass(frozen=True, slots=True)
class SparkStageFigures:
    """One stage of Spark: its tasks, and what they read, wrote and took."""

    stage: int  # Spark's number
    name: str
    tasks: int
    failed_tasks: int
    run_ms: int  # of all tasks together
    processor_ms: int
    input_rows: int
    input_bytes: int
    output_rows: int
    shuffle_read_bytes: int
    shuffle_write_bytes: int
    spilled_bytes: int


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One stage of a refresh: what went in, what came out, and who took how long for it."""

    name: str
    engine: str
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    timings_ms: Mapping[str, float]  # by step
    reads: tuple[SourceRead, ...]
    pruned: tuple[str, ...]  # sources without changes, whose arms of the stage were left out
    statements: tuple[StatementFigures, ...]
    spark: tuple[SparkStageFigures, ...]

    @property
    def ms(self) -> float:
        """The time of all its steps."""
        return sum(self.timings_ms.values())


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What the next refresh of a stream table would do now, and what that took."""

    stream_table: str
    taken_at: datetime
    action: str
    reason: str
    ran: bool  # False: the reason says why this refresh cannot be rehearsed
    changed_rows: Mapping[str, int] = field(default_factory=dict)  # by source
    stages: tuple[StageFigures, ...] = ()
    rows_inserted: int = 0
    rows_deleted: int = 0
    apply: tuple[StatementFigures, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)  # of the refresh, by step
    predicted_ms: float | None = None
    total_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile(Shown):
    """The kept figures of a rehearsal."""

    in_listing: ClassVar[tuple[str, ...]] = ("profile_id", "taken_at", "action", "total_ms")

    profile_id: int
    stream_table: str
    taken_at: datetime
    action: str
    reason: str
    total_ms: float
    figures: Mapping[str, Any]  # those of a Rehearsal
