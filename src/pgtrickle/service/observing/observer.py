"""What observers of refreshes are told, and the protocol that they follow.

An observer is told when a refresh has ended and was committed, or has failed.  It must return at
once: whoever it sends to may be away, and no refresh waits for that.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pgtrickle.errors import TrickleError
from pgtrickle.model.report import RefreshReport
from pgtrickle.service.observing.trace import Trace

if TYPE_CHECKING:
    from pgtrickle.service.refreshing.refresh import Prepared, Refresh
    from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """A refresh that has ended."""

    refresh: Refresh
    trace: Trace
    ended: int  # in nanoseconds since 1970
    prepared: Prepared | None = None  # None: it failed
    report: RefreshReport | None = None  # likewise
    error: TrickleError | None = None


class Observer(Protocol):
    """One who is told of refreshes."""

    def ended(self, ended: Ended) -> None:
        """Take note of a refresh; returns at once."""
        ...

    def close(self) -> None:
        """Send what is left, within a second or two."""
        ...


def tell(runtime: Runtime, ended: Ended) -> None:
    """Tell all observers; what goes wrong with one of them is no failure of the refresh."""
    for observer in runtime.observers:
        try:
            observer.ended(ended)
        except Exception:
            logger.warning("an observer of refreshes failed", exc_info=True)
