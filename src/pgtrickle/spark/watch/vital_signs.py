"""Signs of Spark's progress: the state of a refresh's jobs, and its processes' CPU time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgtrickle.spark.job_tags import tag_of

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark import SparkContext

_JOBS = 20  # the latest ones of a refresh that are checked
_FIGURES = (
    "numCompleteTasks",
    "inputRecords",
    "outputRecords",
    "shuffleReadRecords",
    "shuffleWriteRecords",
    "memoryBytesSpilled",
)


def look_at_jobs(context: SparkContext, job: str | None) -> tuple[object, int]:
    """Return the state of the jobs of a refresh, or of all, and the number of failed tasks.

    The state changes whenever a job makes progress.  Failing tasks are not progress: without an
    executor each is retried forever.
    """
    spark: Any = context._jsc.sc()  # noqa: SLF001 - the status store has no other door
    tracker, store = spark.statusTracker(), spark.statusStore()
    if job is None:
        jobs = sorted(tracker.getActiveJobIds())
    else:
        jobs = sorted(tracker.getJobIdsForTag(tag_of(job)))[-_JOBS:]
    active = set(tracker.getActiveStageIds())
    stages = [
        stage
        for one in jobs
        if (found := tracker.getJobInfo(one)).isDefined()
        for stage in found.get().stageIds()
        if stage in active
    ]
    found = [(stage, store.lastStageAttempt(stage)) for stage in stages]
    moved = [(stage, *(getattr(data, one)() for one in _FIGURES)) for stage, data in found]
    return (tuple(jobs), tuple(moved)), sum(data.numFailedTasks() for _, data in found)


def processor_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its children; 0: unknown."""
    ticks = 0
    with suppress(OSError, ValueError):  # gone meanwhile, or no Linux
        # After the name, which may hold anything: state, parent, ..., and times 11 and 12 further.
        values = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = int(values[11]) + int(values[12])
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                ticks += round(processor_seconds(int(child)) * os.sysconf("SC_CLK_TCK"))
    return ticks / os.sysconf("SC_CLK_TCK")
