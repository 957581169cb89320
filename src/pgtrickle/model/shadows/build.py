"""A shadow build: a new query of a stream table that is loaded beside the old one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import ClassVar

from pgtrickle.model.text.shown import Shown


class ShadowState(Enum):
    """How far a shadow build is."""

    LOADING = "loading"  # the first load has not ended
    FOLLOWING = "following"  # it is refreshed until it has caught up
    READY = "ready"  # it has caught up
    PROMOTED = "promoted"  # its query is in force
    CANCELLED = "cancelled"  # somebody ended it
    FAILED = "failed"  # an error ended it, or it did not converge

    @property
    def active(self) -> bool:
        """Whether a shadow exists.

        >>> [one.value for one in ShadowState if one.active]
        ['loading', 'following', 'ready']
        """
        return self in {ShadowState.LOADING, ShadowState.FOLLOWING, ShadowState.READY}


@dataclass(frozen=True, slots=True)
class ShadowBuild:
    """The latest shadow build of a stream table, as the catalog describes it."""

    stream_table_id: int
    shadow_id: int | None  # None: the shadow is gone
    shadow_name: str
    state: ShadowState
    hold: bool  # whether somebody promotes it by hand
    allow_breaking: bool
    rounds: int  # its refreshes so far, the first load included
    stalled: int  # how many in a row have not brought it closer
    failures: int  # in a row
    lag_changes: int | None  # that the last refresh left, the least of all before it
    least_lag: int | None
    last_round_ms: float | None
    last_error: str | None
    last_error_code: str | None


@dataclass(frozen=True, slots=True)
class EvolutionStatus(Shown):
    """How far the latest shadow build of a stream table is."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "stream_table",
        "state",
        "rows_loaded",
        "lag_changes",
        "converged",
        "estimated_ready_at",
        "last_error",
    )

    stream_table: str
    state: str  # one of ShadowState
    shadow_table_name: str | None  # None: it is gone
    rows_loaded: int
    lag_changes: int | None  # captured changes that the shadow does not have yet
    started_at: datetime
    converged: bool
    estimated_ready_at: datetime | None  # None: nothing is known
    last_error: str | None
    hold: bool
    refreshes: int
    ended_at: datetime | None
    query: str  # as the user wrote it
