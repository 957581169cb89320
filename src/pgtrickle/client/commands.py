"""Helpers for commands: hand work to the daemon, and wait until a stream table is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from pgtrickle.catalog.requests import cancel_request as cancel
from pgtrickle.client.trickle import Trickle
from pgtrickle.service.insight.channels import Notice, follow_notices
from pgtrickle.service.insight.status import show_request_timeout

if TYPE_CHECKING:  # it takes the compiler, which most commands do not need
    from pgtrickle.service.insight.console import Estimate

T = TypeVar("T")


def beside_daemon(trickle: Trickle, tell: Callable[[str], object]) -> Trickle:
    """Return a client that leaves Spark work to the daemon; without a daemon, the same client.

    ``tell`` is called with a message that says which process does the work.
    """
    return trickle._beside_daemon(tell)  # noqa: SLF001 - our own


def request_timeout(trickle: Trickle) -> float:
    """Return for how many seconds a CALL or a command waits for the daemon; 0: without limit."""
    return show_request_timeout(trickle._runtime)  # noqa: SLF001 - our own


def cancel_request(trickle: Trickle, number: int) -> bool:
    """Cancel one of the caller's own requests; return False if it has ended or is another's."""
    with trickle._runtime.connection() as connection:  # noqa: SLF001 - our own
        return cancel(connection, number)


def estimate_query(trickle: Trickle, query: str) -> Estimate | None:
    """Return what PostgreSQL expects of a valid query; None if it cannot plan it by itself."""
    from pgtrickle.service.insight.console import estimate_query as estimate

    return estimate(trickle._runtime, query)  # noqa: SLF001 - our own


def hear_notices(trickle: Trickle, until: Callable[[], bool]) -> Iterator[Notice]:
    """Yield notices of refreshes and alerts until somebody wants no more."""
    return follow_notices(
        trickle._runtime,  # noqa: SLF001 - our own
        (),
        listening=lambda: None,
        seconds=None,
        until=until,
    )


def when_free(
    trickle: Trickle,
    act: Callable[[], T],
    seconds: float | None,
    waiting: Callable[[str], object],
) -> T:
    """Repeat an action while others hold the leases it needs, for at most this many seconds.

    ``waiting`` is called once, with the reason.
    """
    return trickle._when_free(act, seconds, waiting)  # noqa: SLF001 - our own
