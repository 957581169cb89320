"""Plays a workload on a PostgreSQL server of its own, by an engine that is chosen by name."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from dataclasses import replace

import psycopg

import pgtrickle
from pgtrickle.embedded.server import start_embedded
from pgtrickle.ports import Engine
from pgtrickle.settings import POSTGRES, SPARK, Settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.postgres import enterable_directory
from tests.workloads.outcome import Outcome
from tests.workloads.play import play
from tests.workloads.workload import Workload

_DUCKDB = "duckdb"
_MEMORY = "1GB"  # of DuckDB: no query here needs a tenth of it
ENGINES = (SPARK, _DUCKDB, POSTGRES)


def play_on_server(
    workload: Workload, only: Collection[str], *, cycles: int, engine: str, heap: str = ""
) -> dict[str, Outcome]:
    """Play the chosen queries and tell on standard error how far it is.

    ``heap`` is that of Spark, such as 1g; afterwards it tells how much of it was used at most.

    Under AUTO a refresh follows the changes wherever it can, whatever that costs: the tables are
    small, and to compute a query anew would always be cheaper.
    """
    duckdb: Engine | None = DuckDbEngine(_MEMORY) if engine == _DUCKDB else None
    settings = Settings(
        engine=POSTGRES if engine == POSTGRES else SPARK, cost_model_safety_margin=0
    )
    if heap:
        settings = replace(settings, spark_driver_memory=heap)
    with (
        enterable_directory() as directory,
        start_embedded(directory / "home") as server,
        pgtrickle.connect(server.dsn, engine=duckdb, settings=settings, init=True) as trickle,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        outcomes = play(trickle, connection, workload, cycles=cycles, only=only, say=_say)
        if engine == SPARK:
            _say(f"Spark used {_heap_peak():,.0f} MiB of its heap at most")
        return outcomes


def _heap_peak() -> float:
    """Return the peak of Spark's heap in MiB: the sum of its parts, each at its own peak."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or context._jvm is None:
        return 0.0
    pools = context._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    used = [one.getPeakUsage().getUsed() for one in pools if str(one.getType()) == "Heap memory"]
    return float(sum(used)) / 2**20


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
