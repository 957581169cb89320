"""The locks that a step of a plan takes, in words.

Each is asked for with a limit of a tenth of a second, again and again: whoever holds a conflicting
lock makes the step wait, and nobody waits behind it (``service/lock_waits.py``).
"""

from __future__ import annotations

from pgtrickle.model.projects.plan import CREATE, DROP, REBUILD, SHADOW
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.projects.rehearse import Rehearsed

_MOST_NAMED = 5


def list_locks(action: str, name: QualifiedName, rehearsed: Rehearsed) -> tuple[str, ...]:
    """Return the locks that matter to others; each is held for a moment.

    >>> list_locks("drop", QualifiedName("public", "revenue"), Rehearsed())
    ('ACCESS EXCLUSIVE on public.revenue',)
    """
    sources = _names(rehearsed.sources)
    writers = f"SHARE ROW EXCLUSIVE on {sources}, if its changes are not captured yet"
    if action == CREATE:
        return (writers,) if sources else ()
    if action in {REBUILD, SHADOW}:
        strength = "ACCESS EXCLUSIVE" if rehearsed.new_columns else "ROW EXCLUSIVE"
        own = f"{strength} on {name}, when the new contents take their place"
        return (writers, own) if sources else (own,)
    return (f"ACCESS EXCLUSIVE on {name}",) if action == DROP else ()


def _names(sources: tuple[QualifiedName, ...]) -> str:
    shown = ", ".join(map(str, sources[:_MOST_NAMED]))
    more = len(sources) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
