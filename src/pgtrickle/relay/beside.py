"""A relay inside the process of the daemon: it delivers beside the refreshes, and disturbs none.

Each pipeline is held by one relay of the database, wherever that runs: whether its daemon leads or
stands by does not matter.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pgtrickle.errors import InternalError, TrickleError
from pgtrickle.relay.run import Relay

logger = logging.getLogger(__name__)

_SILENCE: Final = 60.0  # seconds without a round after which it is taken for dead
_AGAIN: Final = 5.0  # seconds before a relay that could not begin is tried again


@dataclass(slots=True)
class RelayBeside:
    """A relay that a daemon runs, for as long as the daemon runs."""

    relay: Relay
    error: TrickleError | None = None  # why it does not run
    _last_round: float = field(default_factory=time.monotonic)

    @contextmanager
    def running(self, stop: threading.Event) -> Iterator[None]:
        """Deliver from a thread until the block ends or ``stop`` is set."""
        done = threading.Event()
        thread = threading.Thread(
            target=self._work, args=(stop, done), name="pgtrickle: relay", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            done.set()
            self.relay.interrupt()
            thread.join()

    def _work(self, stop: threading.Event, done: threading.Event) -> None:
        while not (stop.is_set() or done.is_set()):
            self._last_round = time.monotonic()
            try:
                self.relay.run(stop, each_round=self._round, patient=True)
            except TrickleError as error:
                self._failed(error, done)
            except Exception as error:
                logger.exception("relay")
                self._failed(InternalError(f"unexpected {type(error).__name__} in a relay"), done)

    def _failed(self, error: TrickleError, done: threading.Event) -> None:
        self.error = error
        logger.warning("the relay does not run: %s: %s", error.code, error)
        done.wait(_AGAIN)

    def _round(self) -> None:
        self._last_round, self.error = time.monotonic(), self.relay.error

    def deliver(self, stop: threading.Event) -> None:
        """Deliver everything, and return."""
        self.relay.run(stop, once=True)

    def find_problem(self) -> str | None:
        """Return why it delivers nothing at the moment, if so."""
        if self.error is not None:
            return f"relay: {self.error.code} {self.error}"
        silence = time.monotonic() - self._last_round
        return f"the relay has made no round for {silence:.0f} s" if silence > _SILENCE else None
