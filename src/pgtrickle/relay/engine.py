"""What runs the pipelines of a relay, in either direction: a thread each.

It keeps them, follows their definitions, and puts on record what they do.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import PipelineError, PipelineMissingError, TrickleError
from pgtrickle.relay.attempts import Attempts, Doing
from pgtrickle.relay.sinks.sink import Named
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

D = TypeVar("D", bound=Named)

_ROUND = 1.0  # seconds between two looks at the definitions
_PATIENCE = 20.0  # seconds for which a pipeline may finish what it does


def join_definitions(
    own: Sequence[D],
    stored: Iterable[tuple[str, dict[str, Any]]],
    read: Callable[[str, dict[str, Any]], D],
) -> list[D]:
    """Return the pipelines of a file and those of the catalog; raise ST820 for one in both."""
    names, joined = {one.name for one in own}, list(own)
    for name, given in stored:
        if name in names:
            raise PipelineError(
                f"the pipeline {name} is in the file and in the catalog",
                hint="Drop it in one of them.",
            )
        joined.append(read(name, given))
    return joined


@dataclass(slots=True)
class Engine(ABC, Generic[D]):
    """Runs pipelines until it is stopped."""

    word: ClassVar[str]  # for one of its pipelines
    thread: ClassVar[str]  # what its threads are called

    runtime: Runtime
    file: Path | None = None
    names: Sequence[str] = ()  # all if there are none
    holder: str = field(
        default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    )
    pipelines: dict[str, Attempts[D]] = field(default_factory=dict)
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _wakes: dict[str, int] = field(default_factory=dict)
    error: TrickleError | None = None  # why definitions were not read again
    _interrupted: threading.Event = field(default_factory=threading.Event)

    @abstractmethod
    def _load(self) -> list[D]:
        """Return all definitions, or raise ST820."""

    @abstractmethod
    def _make(self, definition: D, *, once: bool) -> Attempts[D]:
        """Return a pipeline of a definition."""

    @abstractmethod
    def _record(
        self, connection: Connection[TupleRow], values: dict[str, object], doing: Doing
    ) -> tuple[bool, int] | None:
        """Record what a pipeline does; return whether it is paused, and how often it was resumed.

        None if another relay has it.
        """

    @abstractmethod
    def _give_back(self, connection: Connection[TupleRow], name: str) -> None:
        """Let other relays have a pipeline."""

    def run(
        self,
        stop: threading.Event,
        *,
        once: bool = False,
        each_round: Callable[[], None] = lambda: None,
        patient: bool = False,
    ) -> set[str]:
        """Work until ``stop`` is set; with ``once``, until there is nothing left to do.

        Return the names of the pipelines.  Raise ST820 if they cannot be read at the beginning,
        unless it is ``patient``: then it looks again.
        """
        if patient:
            self._look()
        else:
            self._follow(self._load(), once=once)
        done = set(self.pipelines)
        try:
            while not (stop.wait(0.05 if once else _ROUND) or self._interrupted.is_set()):
                if once:
                    if not any(one.is_alive() for one in self._threads.values()):
                        break
                else:
                    self._look()
                self._keep()
                each_round()
        finally:
            self._end(list(self.pipelines))
        return done

    def interrupt(self) -> None:
        """End it at its next round, though nobody has stopped it."""
        self._interrupted.set()

    def _look(self) -> None:
        """Follow the definitions as they are now; those that cannot be read change nothing."""
        try:
            self._follow(self._load(), once=False)
            self.error = None
        except TrickleError as error:
            if str(error) != str(self.error):
                logger.warning("pipelines are not reloaded: %s: %s", error.code, error)
            self.error = error

    def _follow(self, definitions: Sequence[D], *, once: bool) -> None:
        wanted = {one.name: one for one in definitions if not self.names or one.name in self.names}
        for name in self.names:
            if name not in wanted and once:
                raise PipelineMissingError(f"there is no {self.word} {name[:80]!r}")
        self._end([n for n, one in self.pipelines.items() if wanted.get(n) != one.definition])
        for name, definition in wanted.items():
            if name not in self.pipelines:
                self._begin(name, self._make(definition, once=once))

    def _begin(self, name: str, pipeline: Attempts[D]) -> None:
        thread = threading.Thread(target=pipeline.run, name=f"{self.thread} {name}", daemon=True)
        self.pipelines[name], self._threads[name] = pipeline, thread
        thread.start()

    def _end(self, names: Sequence[str]) -> None:
        for name in names:
            self.pipelines[name].stop.set()
        ended = []
        for name in names:
            self._threads.pop(name).join(_PATIENCE)
            ended.append(self.pipelines.pop(name))
        with suppress(TrickleError):  # then their leases expire
            self._keep_all(ended)
            with self.runtime.connection() as connection:
                for one in ended:
                    self._give_back(connection, one.definition.name)

    def _keep(self) -> None:
        """Say what pipelines do, keep them for this relay, and hear what is wanted of them."""
        try:
            self._keep_all(list(self.pipelines.values()))
        except TrickleError as error:  # a pipeline that is not kept notices by itself
            logger.warning("states are not recorded: %s: %s", error.code, error)

    def _keep_all(self, pipelines: Sequence[Attempts[D]]) -> None:
        with self.runtime.connection() as connection:
            for pipeline in pipelines:
                doing, name = pipeline.doing, pipeline.definition.name
                if not doing.held:
                    continue
                error, retries = doing.error, doing.retries
                values: dict[str, object] = {
                    "pipeline": name,
                    "holder": self.holder,
                    "seconds": self.runtime.settings.lease_seconds,
                    "state": doing.state,
                    "retries": retries,
                    "code": None if error is None else error.code,
                    "error": None if error is None else str(error)[:2000],
                    "hint": None if error is None else error.hint[:2000],
                }
                kept = self._record(connection, values, doing)
                if kept is None:
                    continue
                doing.retries -= retries
                paused, wake = kept
                if paused:
                    pipeline.paused.set()
                else:
                    pipeline.paused.clear()
                if self._wakes.setdefault(name, wake) != wake:
                    self._wakes[name] = wake
                    pipeline.wake.set()
