"""Compare a forecast with the actual refresh, for the history and the report."""

from __future__ import annotations

from pgtrickle.model.report import CostRecord
from pgtrickle.model.stream_table import Action, StreamTable
from pgtrickle.plan.cost.record import to_record
from pgtrickle.plan.decide import Decision

_MEASURABLE = frozenset({Action.DIFFERENTIAL, Action.FULL})


def record_costs(
    stream_table: StreamTable, decision: Decision | None, actual_ms: float, *, cold: bool = False
) -> CostRecord:
    """Describe the predicted and the actual costs.

    A first load and a rebuild are other work than a FULL refresh: they are not evidence. Nor is a
    ``cold`` refresh, which started the engine.
    """
    forecast = decision.forecast if decision is not None else None
    if decision is None or forecast is None:
        return CostRecord(actual_ms=actual_ms)
    differential, full = forecast.ms(Action.DIFFERENTIAL), forecast.ms(Action.FULL)
    measures = stream_table.populated and decision.action in _MEASURABLE and not cold
    return CostRecord(
        predicted_ms=differential if decision.action is Action.DIFFERENTIAL else full,
        predicted_differential_ms=differential,
        predicted_full_ms=full,
        actual_ms=actual_ms,
        counted=to_record(forecast, decision.action, actual_ms) if measures else None,
    )
