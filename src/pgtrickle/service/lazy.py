"""Values that are created at their first use: some are costly, and most processes need few."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Late(Generic[T]):
    """Creates a value once, in the first thread that asks for it.

    >>> answer = Late(lambda: 6 * 7)
    >>> answer.made is None, answer(), answer.made
    (True, 42, 42)
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.made: T | None = None

    def __call__(self) -> T:
        """Return the value."""
        with self._lock:
            if self.made is None:
                self.made = self._make()
            return self.made
