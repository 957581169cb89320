"""What an engine outside PostgreSQL was asked to do by this process, and what it has at hand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineCounts:
    """What this process has asked of its engine since it began."""

    started: bool  # whether it runs now
    running: int
    completed: int
    failed: int
    seconds: float  # that the ended ones took, a start of the engine included


@dataclass(frozen=True, slots=True)
class SparkFigures:
    """What Spark itself knows of its executors and its work, whoever has asked for it."""

    executors: int
    cores: int
    heap_used_bytes: int  # of the driver
    heap_max_bytes: int
    jobs_active: int
    jobs_completed: int
    jobs_failed: int
    tasks_active: int
    tasks_completed: int
    tasks_failed: int
    task_seconds: float
    garbage_seconds: float


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """What is known of the engine of this process at one moment."""

    counts: EngineCounts | None = None  # None: the engine does not count
    spark: SparkFigures | None = None  # None: it does not run, does not tell, or does not answer
