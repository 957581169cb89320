"""The engines of one refresh: each gets ready when its first stage needs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from pgtrickle.service.refreshing.stages.computer import Computer
from pgtrickle.sql.translate import Dialect

Ready = Callable[[], AbstractContextManager[Computer]]  # gets an engine ready, for a block


@dataclass(frozen=True, slots=True)
class Computers:
    """PostgreSQL and the engine of the process, for the length of one refresh."""

    stack: ExitStack  # in which they are ready
    in_postgres: Ready
    on_engine: Ready
    _ready: dict[bool, Computer] = field(default_factory=dict)  # by whether it is PostgreSQL

    def of(self, dialect: Dialect) -> Computer:
        """Return the engine that computes plans of a dialect."""
        own = dialect is Dialect.POSTGRES
        if own not in self._ready:
            get_ready = self.in_postgres if own else self.on_engine
            self._ready[own] = self.stack.enter_context(get_ready())
        return self._ready[own]
