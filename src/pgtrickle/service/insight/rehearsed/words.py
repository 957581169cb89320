"""Figures in words, alike in all forms."""

from __future__ import annotations

from collections.abc import Mapping

from pgtrickle.model.insight.rehearsal import (
    ScannedTable,
    SparkStageFigures,
    StageFigures,
    StatementFigures,
)
from pgtrickle.model.report import SourceRead
from pgtrickle.model.text.sizes import in_bytes


def rows(number: int) -> str:
    """Write a number of rows.

    >>> rows(1), rows(12000)
    ('1 row', '12,000 rows')
    """
    return "1 row" if number == 1 else f"{number:,} rows"


def flow(stage: StageFigures) -> str:
    """Say what went into a stage and what came out."""
    into = f"{rows(stage.rows_in)} in"
    if stage.bytes_in:
        into += f" ({in_bytes(stage.bytes_in)})"
    return f"{into}, {rows(stage.rows_out)} out ({in_bytes(stage.bytes_out)}), {stage.ms:.1f} ms"


def steps(timings_ms: Mapping[str, float]) -> str:
    """Say how long each step took.

    >>> steps({"read": 1.25, "compute": 12.0})
    'read 1.2 ms, compute 12.0 ms'
    """
    return ", ".join(f"{step} {ms:.1f} ms" for step, ms in timings_ms.items())


def read(one: SourceRead) -> str:
    """Describe a read and its bound."""
    told = f"{one.kind} read of {one.source}, bounded by {one.bounded_by}: {rows(one.rows)}"
    return f"{told}, {in_bytes(one.bytes)}" if one.bytes else told


def buffers(one: StatementFigures | ScannedTable) -> str:
    """Say how many pages were found in PostgreSQL's buffers, and how many were read."""
    return f"{one.shared_hit_blocks:,} hit, {one.shared_read_blocks:,} read"


def table(one: ScannedTable) -> str:
    """Describe how PostgreSQL read a table."""
    by = f" using {one.index}" if one.index else ""
    times = f" in {one.loops:,} loops" if one.loops > 1 else ""
    return f"{one.node}{by} on {one.relation}: {rows(one.rows)}{times}; pages {buffers(one)}"


def spark(one: SparkStageFigures) -> str:
    """Describe a stage of Spark."""
    told = (
        f"stage {one.stage} ({one.name}): {one.tasks} tasks, {one.run_ms} ms run,"
        f" {one.processor_ms} ms of processor; {rows(one.input_rows)} in,"
        f" {rows(one.output_rows)} out; shuffle {in_bytes(one.shuffle_read_bytes)} read,"
        f" {in_bytes(one.shuffle_write_bytes)} written"
    )
    if one.spilled_bytes:
        told += f"; {in_bytes(one.spilled_bytes)} spilled"
    return told + (f"; {one.failed_tasks} tasks failed" if one.failed_tasks else "")
