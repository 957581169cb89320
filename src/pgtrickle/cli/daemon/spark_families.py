"""What is known of a daemon's Spark, in the families of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric as Family

from pgtrickle.cli.daemon.metric_families import family
from pgtrickle.model import metrics
from pgtrickle.model.insight.engine_figures import EngineCounts, EngineFigures, SparkFigures


def spark_families(figures: EngineFigures) -> Iterator[Family]:
    """Write down what is known; what nobody tells is absent, not 0."""
    if figures.counts is not None:
        yield from _of_process(figures.counts)
    if figures.spark is not None:
        yield from _of_spark(figures.spark)


def _of_process(counts: EngineCounts) -> Iterator[Family]:
    yield family(metrics.SPARK_STARTED, {(): counts.started})
    yield family(metrics.SPARK_RUNNING, {(): counts.running})
    ended = {("completed",): counts.completed, ("failed",): counts.failed}
    yield family(metrics.SPARK_COMPUTATIONS, ended)
    yield family(metrics.SPARK_SECONDS, {(): counts.seconds})


def _of_spark(spark: SparkFigures) -> Iterator[Family]:
    yield family(metrics.SPARK_EXECUTORS, {(): spark.executors})
    yield family(metrics.SPARK_CORES, {(): spark.cores})
    heap = {("used",): spark.heap_used_bytes, ("max",): spark.heap_max_bytes}
    yield family(metrics.SPARK_HEAP, heap)
    yield family(metrics.SPARK_JOBS_ACTIVE, {(): spark.jobs_active})
    jobs = {("completed",): spark.jobs_completed, ("failed",): spark.jobs_failed}
    yield family(metrics.SPARK_JOBS, jobs)
    yield family(metrics.SPARK_TASKS_ACTIVE, {(): spark.tasks_active})
    tasks = {("completed",): spark.tasks_completed, ("failed",): spark.tasks_failed}
    yield family(metrics.SPARK_TASKS, tasks)
    yield family(metrics.SPARK_TASK_SECONDS, {(): spark.task_seconds})
    yield family(metrics.SPARK_GC_SECONDS, {(): spark.garbage_seconds})
