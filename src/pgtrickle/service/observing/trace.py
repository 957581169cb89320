"""The trace of one refresh: an id under which others know it, and its steps on the clock."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """A block of work; times are nanoseconds since 1970."""

    name: str
    began: int
    ended: int


@dataclass(slots=True)
class Trace:
    """What is recorded of a refresh that somebody outside is told of."""

    id: str = field(default_factory=lambda: secrets.token_hex(16))
    began: int = field(default_factory=time.time_ns)
    steps: list[Step] = field(default_factory=list)

    def add(self, name: str, began: int) -> None:
        """Record a step that ends now."""
        self.steps.append(Step(name, began, time.time_ns()))
