"""What the stages of a refresh read, wrote and took, as Spark's status store counts it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pgtrickle.model.insight.rehearsal import SparkStageFigures
from pgtrickle.spark.job_tags import tag_of

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark import SparkContext

_JOBS = 50  # the latest ones of a refresh that are looked at
_COUNTED_WITHIN_MS = 2_000  # the store hears of finished tasks a little later


def list_stages(context: SparkContext, job: str) -> tuple[SparkStageFigures, ...]:
    """Return the stages of the latest jobs of a refresh, in the order in which they ran."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark

    spark: Any = context._jsc.sc()  # noqa: SLF001 - the status store has no other door
    with suppress(Py4JError):  # it stays busy: then the figures are those heard of by now
        spark.listenerBus().waitUntilEmpty(_COUNTED_WITHIN_MS)
    tracker, store = spark.statusTracker(), spark.statusStore()
    jobs = sorted(tracker.getJobIdsForTag(tag_of(job)))[-_JOBS:]
    stages = {
        stage
        for one in jobs
        if (found := tracker.getJobInfo(one)).isDefined()
        for stage in found.get().stageIds()
    }
    figures = []
    for stage in sorted(stages):
        with suppress(Py4JError):  # skipped, because its result was there, or forgotten since
            figures.append(_figures(stage, store.lastStageAttempt(stage)))
    return tuple(figures)


def _figures(stage: int, data: Any) -> SparkStageFigures:
    return SparkStageFigures(
        stage,
        str(data.name()).split(" at ", 1)[0],
        int(data.numTasks()),
        int(data.numFailedTasks()),
        int(data.executorRunTime()),
        round(int(data.executorCpuTime()) / 1_000_000),
        int(data.inputRecords()),
        int(data.inputBytes()),
        int(data.outputRecords()),
        int(data.shuffleReadBytes()),
        int(data.shuffleWriteBytes()),
        int(data.memoryBytesSpilled()) + int(data.diskBytesSpilled()),
    )
