"""Predict the time of a refresh from the plan, PostgreSQL's statistics and the history.

It must cost next to nothing compared with a small refresh, so a process keeps:

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

from pgtrickle.catalog.refreshes.measurements import list_measurements
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.stream_table import Action, StreamTable
from pgtrickle.plan.cost.choose import Forecast, choose
from pgtrickle.plan.cost.count_work import Differential, count_differential, count_full
from pgtrickle.plan.cost.fit import Observation
from pgtrickle.plan.cost.outline import outline_differential, outline_full
from pgtrickle.plan.cost.record import engine_of, exploration_of, work_of
from pgtrickle.plan.cost.statistics import VALUE_BYTES, Statistics
from pgtrickle.plan.cost.work import ENGINE_PRICES, Work, price
from pgtrickle.service.compile import Compiled
from pgtrickle.service.refreshing.costing.memory import MEASUREMENTS, CostMemory, Measured
from pgtrickle.service.refreshing.costing.table_statistics import read_statistics
from pgtrickle.service.runtime import Runtime

_STATISTICS_SECONDS = 60.0
_STATISTICS_CHANGE = 0.1


def make_forecast(
    runtime: Runtime,
    stream_table: StreamTable,
    connection: Connection[TupleRow],
    compiled: Compiled,
    relids: Sequence[int],
    changed: Mapping[str, int] | None,
    mode: EngineMode,
) -> tuple[Forecast, Statistics]:
    """Predict a refresh after the given changes; None if only FULL is possible.

    On the given engine; if that is to be chosen, on each of them.
    """
    memory = _remember(runtime, stream_table, compiled)
    statistics = _statistics(runtime, memory, stream_table, relids, changed or {})
    _learn(connection, memory, stream_table)
    work: dict[Action, Work] = {}
    differential: Differential | None = None
    if changed is not None:
        sources = frozenset(changed)
        outlines = memory.differential.get(sources)
        if outlines is None:
            outlines = outline_differential(compiled.staged, sources, compiled.spread)
            memory.differential.put(sources, outlines)
        differential = count_differential(outlines, statistics, changed)
        work[Action.DIFFERENTIAL] = differential.work
    work[Action.FULL] = count_full(memory.full, statistics, differential)
    engines = [EngineMode.SPARK, EngineMode.POSTGRES] if mode is EngineMode.AUTO else [mode]
    margin = runtime.settings.cost_model_safety_margin
    starts = {EngineMode.SPARK: runtime.engine.start_ms}
    first, *others = [
        _forecast(memory, engine, work, margin, starts.get(engine, 0.0)) for engine in engines
    ]
    return replace(first, others=tuple(others)).by_quickest(), statistics


def _forecast(
    memory: CostMemory,
    engine: EngineMode,
    work: Mapping[Action, Work],
    margin: float,
    start_ms: float,
) -> Forecast:
    learned = memory.learned[engine]
    history = {
        action: [_observe(one, memory.refreshes, engine) for one in found]
        for action, found in learned.measured.items()
    }
    return choose(
        work, history, learned.exploration, margin=margin, engine=engine, start_ms=start_ms
    )


def _remember(runtime: Runtime, stream_table: StreamTable, compiled: Compiled) -> CostMemory:
    memory = runtime.remembered.find_cost(stream_table)
    if memory is None or memory.compiled is not compiled:
        memory = CostMemory(compiled, outline_full(compiled.staged))
        runtime.remembered.keep_cost(stream_table, memory)
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
        # On a separate connection: a failure here must not end the snapshot.
        with runtime.connection() as connection:
            query = memory.compiled.staged
            statistics = read_statistics(connection, stream_table, query, relids)
        if runtime.distributes:
            large = runtime.settings.large_read_bytes / VALUE_BYTES
            statistics = replace(statistics, large_values=large)
        memory.statistics, memory.read_at, memory.changed_since = statistics, now, 0.0
    return statistics


def _learn(connection: Connection[TupleRow], memory: CostMemory, stream_table: StreamTable) -> None:
    """Add the refreshes that any process has measured since the last forecast."""
    newer = list_measurements(
        connection, stream_table.id, newer_than=memory.newest, limit=MEASUREMENTS
    )
    for one in newer:
        memory.newest = one.refresh_id
        memory.refreshes += 1
        learned = memory.learned[engine_of(one.cost)]
        learned.exploration = exploration_of(one.cost)
        work = work_of(one.cost, one.action)
        if work is not None:
            learned.measured[one.action].append(Measured(memory.refreshes, work, one.actual_ms))


def _observe(measured: Measured, refreshes: int, engine: EngineMode) -> Observation:
    priced = price(measured.work, ENGINE_PRICES[engine])
    return Observation(priced, measured.actual_ms, refreshes - measured.number)
