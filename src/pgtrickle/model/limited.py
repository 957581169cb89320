"""A mapping that keeps the entries used last, up to a limit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Limited(Generic[K, V]):
    """Entries by key, for several threads; the one unused for longest makes room for a new one.

    >>> kept: Limited[str, int] = Limited(2)
    >>> for number, name in enumerate(["a", "b", "c"]):
    ...     kept.put(name, number)
    >>> kept.get("a"), kept.get("b"), kept.get("c"), kept.evicted
    (None, 1, 2, 1)
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit  # 0: none
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        self.evicted = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return an entry, which counts as used; None if there is none."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Keep an entry in the place of an earlier one."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while 0 < self._limit < len(self._entries):
                self._entries.popitem(last=False)
                self.evicted += 1

    def forget(self, key: K) -> None:
        """Remove an entry, if it is there."""
        with self._lock:
            self._entries.pop(key, None)

    def retain(self, wanted: Callable[[K], bool]) -> None:
        """Remove the entries whose keys are not wanted."""
        with self._lock:
            for key in [one for one in self._entries if not wanted(one)]:
                del self._entries[key]

    def clear(self) -> int:
        """Remove all entries; return how many there were."""
        with self._lock:
            removed = len(self._entries)
            self._entries.clear()
            return removed

    def values(self) -> list[V]:
        """Return the entries, the one used last at the end."""
        with self._lock:
            return list(self._entries.values())
