"""A thread that follows the settings in a process that may have nothing else to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pgtrickle.service.periodic import repeated
from pgtrickle.service.runtime import Runtime

_SECONDS = 0.5  # with the age of an answer less than two, within which a change is followed


@contextmanager
def following_settings(runtime: Runtime, changed: Callable[[], object]) -> Iterator[None]:
    """Look at the settings again and again during a block; call ``changed`` when they change."""
    live = runtime.live
    if live is None:
        yield
        return
    live.listeners.append(changed)
    try:
        # Whoever borrows a connection looks at them.
        with repeated(runtime, "look at the settings", _SECONDS, lambda _: None):
            yield
    finally:
        live.listeners.remove(changed)
