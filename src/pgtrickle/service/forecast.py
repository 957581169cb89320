"""Predict what a refresh would take, from the plan, PostgreSQL's statistics and the history.

It must cost next to nothing beside a small refresh, so a process keeps what it has found:

* outlines of the plan, by which sources changed, as long as the compiled query holds;
* statistics, until a minute has passed or a tenth of the sources' rows has changed since;
* measured refreshes: each time only the newer ones are read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.measurements import list_measurements
from pgtrickle.model.stream_table import Action, StreamTable
from pgtrickle.refresh.cost.choose import Forecast, choose
from pgtrickle.refresh.cost.count_work import Differential, count_differential, count_full
from pgtrickle.refresh.cost.fit import Observation
from pgtrickle.refresh.cost.outline import outline_differential, outline_full
from pgtrickle.refresh.cost.record import exploration_of, work_of
from pgtrickle.refresh.cost.statistics import Statistics
from pgtrickle.refresh.cost.work import Work, price
from pgtrickle.service.compile import Compiled
from pgtrickle.service.cost_memory import MEASUREMENTS, CostMemory, Measured
from pgtrickle.service.large_inputs import VALUE_BYTES
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.statistics import read_statistics

_STATISTICS_SECONDS = 60.0
_STATISTICS_CHANGE = 0.1


def make_forecast(
    runtime: Runtime,
    stream_table: StreamTable,
    connection: Connection[TupleRow],
    compiled: Compiled,
    relids: Sequence[int],
    changed: Mapping[str, int] | None,
) -> tuple[Forecast, Statistics]:
    """Predict a refresh after the given changes; None where only FULL is possible."""
    memory = _remember(runtime, stream_table, compiled)
    statistics = _statistics(runtime, memory, stream_table, relids, changed or {})
    _learn(connection, memory, stream_table)
    work: dict[Action, Work] = {}
    differential: Differential | None = None
    if changed is not None:
        sources = frozenset(changed)
        if sources not in memory.differential:
            memory.differential[sources] = outline_differential(
                compiled.staged, sources, compiled.spread
            )
        differential = count_differential(memory.differential[sources], statistics, changed)
        work[Action.DIFFERENTIAL] = differential.work
    work[Action.FULL] = count_full(memory.full, statistics, differential)
    history = {
        action: [_observe(one, memory.refreshes) for one in found]
        for action, found in memory.measured.items()
    }
    margin = runtime.settings.cost_model_safety_margin
    return choose(work, history, memory.exploration, margin=margin), statistics


def _remember(runtime: Runtime, stream_table: StreamTable, compiled: Compiled) -> CostMemory:
    memory = runtime.cost_memories.get(stream_table.id)
    if memory is None or memory.compiled is not compiled:
        memory = CostMemory(compiled, outline_full(compiled.staged))
        runtime.cost_memories[stream_table.id] = memory
    return memory


def _statistics(
    runtime: Runtime,
    memory: CostMemory,
    stream_table: StreamTable,
    relids: Sequence[int],
    changed: Mapping[str, int],
) -> Statistics:
    memory.changed_since += sum(changed.values())
    statistics, now = memory.statistics, time.monotonic()
    if (
        statistics is None
        or now - memory.read_at > _STATISTICS_SECONDS
        or memory.changed_since > _STATISTICS_CHANGE * statistics.source_rows
    ):
        # On a connection of its own: what fails here must not end the snapshot.
        with runtime.connection() as connection:
            query = memory.compiled.staged
            statistics = read_statistics(connection, stream_table, query, relids)
        if runtime.engine.distributed:
            large = runtime.settings.large_read_bytes / VALUE_BYTES
            statistics = replace(statistics, large_values=large)
        memory.statistics, memory.read_at, memory.changed_since = statistics, now, 0.0
    return statistics


def _learn(connection: Connection[TupleRow], memory: CostMemory, stream_table: StreamTable) -> None:
    """Add the refreshes that were measured since the last forecast, by whichever process."""
    newer = list_measurements(
        connection, stream_table.id, newer_than=memory.newest, limit=MEASUREMENTS
    )
    for one in newer:
        memory.newest = one.refresh_id
        memory.refreshes += 1
        memory.exploration = exploration_of(one.cost)
        work = work_of(one.cost, one.action)
        if work is not None:
            memory.measured[one.action].append(Measured(memory.refreshes, work, one.actual_ms))


def _observe(measured: Measured, refreshes: int) -> Observation:
    return Observation(price(measured.work), measured.actual_ms, refreshes - measured.number)
