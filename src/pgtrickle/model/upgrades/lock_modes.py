"""PostgreSQL's modes of locks on tables, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Sequence

# PostgreSQL's lock modes, the weakest first, each with the weakest one that it conflicts with.
_CONFLICTS_FROM = {
    "AccessShareLock": "AccessExclusiveLock",
    "RowShareLock": "ExclusiveLock",
    "RowExclusiveLock": "ShareLock",
    "ShareUpdateExclusiveLock": "ShareUpdateExclusiveLock",
    "ShareLock": "RowExclusiveLock",
    "ShareRowExclusiveLock": "RowExclusiveLock",
    "ExclusiveLock": "RowShareLock",
    "AccessExclusiveLock": "AccessShareLock",
}
MODES = tuple(_CONFLICTS_FROM)


def conflict(one: str, other: str) -> bool:
    """Tell whether two lock modes of PostgreSQL exclude each other.

    >>> conflict("AccessShareLock", "AccessExclusiveLock"), conflict("ShareLock", "ShareLock")
    (True, False)
    """
    if one == other == "ShareLock":
        return False
    return MODES.index(other) >= MODES.index(_CONFLICTS_FROM[one])


def strongest(modes: Sequence[str]) -> str:
    """Return the strongest of some lock modes.

    >>> strongest(["ShareLock", "AccessExclusiveLock", "RowShareLock"])
    'AccessExclusiveLock'
    """
    return max(modes, key=MODES.index)
