"""The Spark settings of a context and of the small and large profile.

Both profiles compute the same values; they differ in how a query is cut into tasks.
"""

from __future__ import annotations

import os
from pathlib import Path

# Settings that affect the meaning of a value: overflow, time and decimals as in PostgreSQL.
EXACT: dict[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    # Two decimals that no third can hold meet in one that keeps the fraction: a value with too many
    # digits before the point is then an error, where rounding the other would go unnoticed.
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "true",
    # An Arrow timestamp without a zone is PostgreSQL's timestamp without a zone.
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
}

# One task, no exchange, no broadcast: for a few thousand rows job launch is the whole cost.
SMALL: dict[str, str] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.join.preferSortMergeJoin": "false",
    # Above this estimate Spark shuffles even a single partition.  A data source is estimated at
    # the default size, and a join at the product of its inputs: one byte keeps every product small.
    "spark.sql.maxSinglePartitionBytes": str(2**63 - 1),
    "spark.sql.defaultSizeInBytes": "1",
    # Generating and compiling code costs more than interpreting a few thousand rows: measured 57
    # against 108 ms of execution for a three-armed delta over five inputs.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without generated code a common part of two expressions is looked up in a cache for every row,
    # which takes longer than computing it again.
    "spark.sql.subexpressionElimination.enabled": "false",
    # Conditions that follow from others save rows, of which there are few, and cost planning: a
    # third of it for a change of five tables.
    "spark.sql.constraintPropagation.enabled": "false",
    # As Arrow batches, inputs go to the task in one piece; as local rows they would be serialised
    # one by one, again for each place of the plan that names them: measured 590 against 1170 ms
    # for 90,000 rows in 14 inputs, and no difference for a few.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    # Spark describes every plan to its listeners, even without any: the shortest form is enough.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "100",
}

LARGE: dict[str, str] = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
}


def context_settings(
    master: str, scratch: Path, driver_memory: str, result_bytes: int
) -> dict[str, str]:
    """Return the settings fixed when the context starts."""
    settings = {
        "spark.master": master,
        "spark.app.name": "pgtrickle",
        "spark.driver.memory": driver_memory,
        "spark.driver.maxResultSize": str(result_bytes),
        # A JVM that continues after an OutOfMemoryError neither answers nor reports.
        # Its temporary files are removed with the rest, and no other user can read them meanwhile.
        "spark.driver.extraJavaOptions": (
            f'-XX:+ExitOnOutOfMemoryError "-Djava.io.tmpdir={scratch}"'
        ),
        # Each refresh has a pool: a long one leaves room for the others.
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.artifact.isolation.enabled": "false",
        # Every stream table has its own code; the default cache of 100 classes is soon full.
        "spark.sql.codegen.cache.maxEntries": "2000",
        **EXACT,
    }
    if is_local(master):
        settings |= {
            # Of Spark's 200 each would be a file of a few rows; the small profile has its own.
            "spark.sql.shuffle.partitions": "32",
            "spark.local.dir": str(scratch / "local"),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return settings


def default_master() -> str:
    """Return the default master: all cores of this machine.

    With a single thread a long refresh would starve all others: whenever a task ends no pool has
    one running, and among equals Spark lets the same one go first each time, by its name.
    """
    return "local[*]" if _cores() > 1 else "local[2]"


def _cores() -> float:
    """Return the number of cores of this process: by affinity, and by its container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # no container, or one without a quota: "max"
        return cores


def is_local(master: str) -> bool:
    """Tell whether the executors are threads of the driver, which can read its files."""
    return master == "local" or master.startswith("local[")
