"""What Spark knows of its executors, its jobs and its memory, for metrics.

The status store is what Spark's own REST interface reads, without its port.  What counts goes on
from look to look: Spark forgets executors that it has lost, and jobs beyond its bound.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pgtrickle.model.insight.engine_figures import SparkFigures

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark import SparkContext

_ALL = False  # not only those that live
_DRIVER = "driver"
_COUNTED = ("completedTasks", "failedTasks", "totalDuration", "totalGCTime")


@dataclass(slots=True)
class SparkGauge:
    """Looks at one context after another, and keeps what they have counted."""

    _application: str = ""
    _known: dict[str, dict[str, int]] = field(default_factory=dict)  # by executor
    _failed: frozenset[int] = frozenset()  # jobs
    _jobs_completed: int = 0
    _totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*_COUNTED, "jobs"), 0))
    _jobs_failed: int = 0

    def look(self, context: SparkContext) -> SparkFigures:
        """Return what a context has at hand, and has done; one thread at a time."""
        spark: Any = context._jsc.sc()  # noqa: SLF001 - the status store has no other door
        jvm: Any = context._jvm  # noqa: SLF001 - the heap has no other door
        if (application := str(context.applicationId)) != self._application:
            self._application, self._known, self._failed = application, {}, frozenset()
            self._jobs_completed = 0
        store = spark.statusStore()
        # As text in one call: a cluster has hundreds of executors.
        mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        mapper.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())
        executors = json.loads(mapper.writeValueAsString(store.executorList(_ALL)))
        wrapper = jvm.java.lang.Class.forName("org.apache.spark.status.ExecutorSummaryWrapper")
        for one in executors:
            if one["id"] == _DRIVER:  # for which the list has the time since its start
                own = store.store().read(wrapper, _DRIVER).info()
                one["totalDuration"] = int(own.totalDuration())
        self._count(executors)
        self._count_jobs(jvm, mapper, store)
        # The driver of a cluster is listed, too, and works on no task.
        living = [one for one in executors if one["isActive"] and one["maxTasks"]]
        heap = jvm.java.lang.Runtime.getRuntime()
        totals = self._totals
        return SparkFigures(
            len(living),
            sum(one["totalCores"] for one in living),
            int(heap.totalMemory()) - int(heap.freeMemory()),
            int(heap.maxMemory()),
            len(list(spark.statusTracker().getActiveJobIds())),
            totals["jobs"],
            self._jobs_failed,
            sum(one["activeTasks"] for one in living),
            totals["completedTasks"],
            totals["failedTasks"],
            totals["totalDuration"] / 1000,
            totals["totalGCTime"] / 1000,
        )

    def _count(self, executors: list[dict[str, Any]]) -> None:
        known = {one["id"]: {name: int(one[name]) for name in _COUNTED} for one in executors}
        for executor, now in known.items():
            before = self._known.get(executor, {})
            for name in _COUNTED:
                self._totals[name] += max(now[name] - before.get(name, 0), 0)
        self._known = known

    def _count_jobs(self, jvm: Any, mapper: Any, store: Any) -> None:
        completed = int(store.appSummary().numCompletedJobs())
        self._totals["jobs"] += max(completed - self._jobs_completed, 0)
        self._jobs_completed = completed
        wanted = jvm.java.util.ArrayList()
        wanted.add(jvm.org.apache.spark.JobExecutionStatus.FAILED)
        failed = frozenset(
            int(one["jobId"])
            for one in json.loads(mapper.writeValueAsString(store.jobsList(wanted)))
        )
        self._jobs_failed += len(failed - self._failed)
        self._failed = failed
