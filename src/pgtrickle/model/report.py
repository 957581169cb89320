"""The reports of a refresh and of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pgtrickle.model.stream_table import Action
from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class SourceRead:
    """The size of one read of a refresh, and its bound."""

    source: str
    kind: str  # "changes", "keyed", "full", "stage"
    bounded_by: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Progress(Shown):
    """The progress of a large refresh."""

    stream_table: str
    stage: str
    rows_read: int
    rows_staged: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CostRecord:
    """The prediction for a refresh, and its actual cost."""

    predicted_ms: float | None = None  # for the action that ran
    predicted_differential_ms: float | None = None
    predicted_full_ms: float | None = None
    actual_ms: float | None = None
    counted: Mapping[str, Any] | None = None  # from which later predictions learn

    @property
    def alternative_ms(self) -> float | None:
        """The prediction for the action that did not run."""
        both = (self.predicted_differential_ms, self.predicted_full_ms)
        return next((one for one in both if one != self.predicted_ms), None)


@dataclass(frozen=True, slots=True)
class RefreshReport(Shown):
    """The outcome of one refresh, as the history records it."""

    stream_table: str
    refresh_id: int | None  # None: nothing has happened, and the history has no row for it
    action: Action
    reason: str
    rows_inserted: int
    rows_deleted: int
    duration_ms: float
    reads: tuple[SourceRead, ...] = ()
    timings_ms: dict[str, float] = field(default_factory=dict)
    predicted_ms: float | None = None  # for this action; None if there was nothing to do
    alternative_ms: float | None = None  # for the other of DIFFERENTIAL and FULL, where possible


@dataclass(frozen=True, slots=True)
class VerifyReport(Shown):
    """A stream table compared with PostgreSQL's own answer to its defining query."""

    stream_table: str
    ok: bool
    rows: int
    missing: int  # rows of the answer that the table lacks
    extra: int  # rows of the table that the answer lacks
    missing_sample: tuple[tuple[str, ...], ...] = ()
    extra_sample: tuple[tuple[str, ...], ...] = ()
