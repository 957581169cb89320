"""The thread of a pipeline, of either direction: attempts, and longer and longer pauses."""

from __future__ import annotations

import logging
import random
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from pgtrickle.errors import InternalError, RelayHeldError, Retry, TrickleError
from pgtrickle.relay.backoff import pause
from pgtrickle.relay.sinks.sink import Named

logger = logging.getLogger(__name__)

D = TypeVar("D", bound=Named)

LOOK_AGAIN = 5.0  # seconds, while another relay has the pipeline, or somebody must act
_FINAL = frozenset({"blocked", "needs_snapshot", "lost", "failed", "waiting", "paused"})
_ATTEMPTS_ONCE = 6  # of a pipeline that is to end by itself


@dataclass(slots=True)
class Doing:
    """What a pipeline does, for the relay, which puts it on record."""

    state: str = "starting"
    error: TrickleError | None = None
    retries: int = 0  # since they were put on record
    in_flight: int = 0  # of one that delivers
    lag: int | None = None  # of one that receives
    held: bool = False
    caught_up: bool = False


@dataclass(slots=True)
class Attempts(ABC, Generic[D]):
    """A pipeline while a relay has it; ``run`` is a thread of its own."""

    word: ClassVar[str]

    dsn: str
    definition: D
    holder: str
    lease_seconds: float = 30
    doing: Doing = field(default_factory=Doing)
    stop: threading.Event = field(default_factory=threading.Event)
    paused: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)  # somebody resumed it
    once: bool = False
    _draw: random.Random = field(default_factory=random.Random)
    _attempts: int = 0  # since there was progress

    def run(self) -> None:
        """Work until it is stopped; failures are repeated, after longer and longer pauses."""
        while not self.stop.is_set():
            try:
                self._attempt()
                if self.once:
                    return
            except TrickleError as error:
                self._failed(error)
            except Exception as error:
                internal = InternalError(f"unexpected {type(error).__name__} in a relay")
                internal.__cause__ = error
                logger.exception("%s %s", self.word, self.definition.name)
                self._failed(internal)
            if self.once and self._gives_up():
                return

    @abstractmethod
    def _attempt(self) -> None:
        """Take the pipeline, and work until something ends it."""

    @abstractmethod
    def _state_after(self, error: TrickleError, seconds: float) -> tuple[str, float]:
        """Return the state of the pipeline, and how long it rests."""

    def _woken(self) -> None:
        """Forget what somebody has mended."""

    def _gives_up(self) -> bool:
        return self.doing.state in _FINAL or self._attempts >= _ATTEMPTS_ONCE

    def _failed(self, error: TrickleError) -> None:
        self._attempts += 1
        self.doing.error, self.doing.in_flight = error, 0
        self.doing.retries += 1
        seconds = pause(self._attempts, self._draw)
        if isinstance(error, RelayHeldError):
            self.doing.state, self.doing.held, seconds = "waiting", False, LOOK_AGAIN
        else:
            self.doing.state, seconds = self._state_after(error, seconds)
        logger.warning("%s %s: %s: %s", self.word, self.definition.name, error.code, error)
        if not (self.once and self._gives_up()):
            self._rest(seconds)

    def _rest(self, seconds: float) -> None:
        """Wait, but not when it is stopped, or resumed."""
        ends = time.monotonic() + seconds
        while not self.stop.is_set() and (left := ends - time.monotonic()) > 0:
            if self.wake.wait(min(left, 0.1)):
                self.wake.clear()
                self._woken()
                return

    def _taken(self, *, paused: bool) -> None:
        """Note that the pipeline is this relay's, and whether somebody has paused it."""
        if paused:
            self.paused.set()
        else:
            self.paused.clear()
        self.doing.held = True

    def _may_go_on(self) -> bool:
        """Wait while it is paused; return whether there is anything to do then."""
        while self.paused.is_set() and not self.stop.is_set():
            self.doing.state, self.doing.error = "paused", None
            self.stop.wait(0.1)
            if self.once:
                return False
        return not self.stop.is_set()


def usual_state(error: TrickleError, seconds: float) -> tuple[str, float]:
    """Return the state after an error of which nothing else is known, and the rest.

    >>> from pgtrickle.errors import PipelineError
    >>> usual_state(PipelineError("it names no sink"), 0.1)
    ('failed', 5.0)
    >>> usual_state(RelayHeldError("another relay has it"), 0.1)
    ('retrying', 0.1)
    """
    if error.retry is Retry.NEVER:
        return "failed", max(seconds, LOOK_AGAIN)
    return "retrying", seconds
