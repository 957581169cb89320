"""What is known of a daemon's Spark, as readings of metrics."""

from __future__ import annotations

from collections.abc import Iterator

from pgtrickle.cli.daemon.readings import Reading, Values
from pgtrickle.model import metrics
from pgtrickle.model.insight.engine_figures import EngineCounts, EngineFigures, SparkFigures


def spark_readings(figures: EngineFigures) -> Iterator[Reading]:
    """Write down what is known; what nobody tells is absent, not 0."""
    if figures.counts is not None:
        yield from _of_process(figures.counts)
    if figures.spark is not None:
        yield from _of_spark(figures.spark)


def _of_process(counts: EngineCounts) -> Iterator[Reading]:
    yield Reading(metrics.SPARK_STARTED, {(): counts.started})
    yield Reading(metrics.SPARK_RUNNING, {(): counts.running})
    yield Reading(metrics.SPARK_COMPUTATIONS, _ended(counts.completed, counts.failed))
    yield Reading(metrics.SPARK_SECONDS, {(): counts.seconds})


def _of_spark(spark: SparkFigures) -> Iterator[Reading]:
    yield Reading(metrics.SPARK_EXECUTORS, {(): spark.executors})
    yield Reading(metrics.SPARK_CORES, {(): spark.cores})
    heap: Values = {("used",): spark.heap_used_bytes, ("max",): spark.heap_max_bytes}
    yield Reading(metrics.SPARK_HEAP, heap)
    yield Reading(metrics.SPARK_JOBS_ACTIVE, {(): spark.jobs_active})
    yield Reading(metrics.SPARK_JOBS, _ended(spark.jobs_completed, spark.jobs_failed))
    yield Reading(metrics.SPARK_TASKS_ACTIVE, {(): spark.tasks_active})
    yield Reading(metrics.SPARK_TASKS, _ended(spark.tasks_completed, spark.tasks_failed))
    yield Reading(metrics.SPARK_TASK_SECONDS, {(): spark.task_seconds})
    yield Reading(metrics.SPARK_GC_SECONDS, {(): spark.garbage_seconds})


def _ended(completed: int, failed: int) -> Values:
    return {("completed",): completed, ("failed",): failed}
