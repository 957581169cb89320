"""What a refresh and a verification tell their caller."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgtrickle.model.stream_table import Action


@dataclass(frozen=True, slots=True)
class SourceRead:
    """How much one read of a refresh brought, and what bounded it."""

    source: str
    kind: str  # "changes", "keyed", "full", "stage"
    bounded_by: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """The outcome of one refresh, as the history records it."""

    stream_table: str
    refresh_id: int
    action: Action
    reason: str
    rows_inserted: int
    rows_deleted: int
    duration_ms: float
    reads: tuple[SourceRead, ...] = ()
    timings_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """A stream table compared with PostgreSQL's own answer to its defining query."""

    stream_table: str
    ok: bool
    rows: int
    missing: int  # rows of the answer that the table lacks
    extra: int  # rows of the table that the answer lacks
    missing_sample: tuple[tuple[str, ...], ...] = ()
    extra_sample: tuple[tuple[str, ...], ...] = ()
