"""How long the compiler takes for a query: from its text to the plan of a refresh."""

from __future__ import annotations

import time
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.plan.stages import plan_differential, sources_of
from pgtrickle.service.compile import compile_query
from pgtrickle.service.refreshing.stages.state_rows import StateRows
from pgtrickle.sql.translate import Dialect


@dataclass(frozen=True, slots=True)
class CompileTime:
    """Milliseconds of one compilation: on the clock, and of this thread's own work."""

    elapsed: float
    own: float  # without waiting for PostgreSQL, or for a processor


def measure_compile(connection: Connection[TupleRow], query: str) -> CompileTime:
    """Bind, lower and cut a query, plan changes of all its sources for Spark, and measure it.

    A query that is refused is not planned.
    """
    began, worked = time.perf_counter(), time.thread_time()
    compiled = compile_query(connection, query)
    if compiled.refusal is None:
        changed = list(sources_of(compiled.staged))
        state_rows = StateRows(0, compiled)
        plan_differential(compiled.staged, changed, Dialect.SPARK, state_rows, compiled.known)
    return CompileTime((time.perf_counter() - began) * 1000, (time.thread_time() - worked) * 1000)
