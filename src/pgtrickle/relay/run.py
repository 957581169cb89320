"""A relay: its pipelines, a thread each; it keeps them, and follows their definitions."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pgtrickle.catalog.relay.states import give_back, keep, list_definitions
from pgtrickle.errors import PipelineError, PipelineMissingError, TrickleError
from pgtrickle.relay.definitions import Definition, read_definition, read_file
from pgtrickle.relay.pipeline import Pipeline
from pgtrickle.relay.source import dsn_of
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_ROUND = 1.0  # seconds between two looks at the definitions
_PATIENCE = 20.0  # seconds for which a pipeline may finish what it does


def load_definitions(runtime: Runtime, file: Path | None) -> list[Definition]:
    """Return all pipelines, those of a file and those of the catalog; or raise ST820."""
    own = [] if file is None else read_file(file)
    with runtime.connection() as connection:
        stored = list_definitions(connection)
    names = {one.name for one in own}
    for name, _ in stored:
        if name in names:
            raise PipelineError(
                f"the pipeline {name} is in the file and in the catalog",
                hint="Drop it in one of them.",
            )
    return own + [read_definition(name, given, from_file=False) for name, given in stored]


@dataclass(slots=True)
class Relay:
    """Delivers pipelines until it is stopped."""

    runtime: Runtime
    file: Path | None = None
    names: Sequence[str] = ()  # all if there are none
    holder: str = field(
        default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    )
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _wakes: dict[str, int] = field(default_factory=dict)
    error: TrickleError | None = None  # why definitions were not read again
    _interrupted: threading.Event = field(default_factory=threading.Event)

    def run(
        self,
        stop: threading.Event,
        *,
        once: bool = False,
        each_round: Callable[[], None] = lambda: None,
        patient: bool = False,
    ) -> set[str]:
        """Deliver until ``stop`` is set; with ``once``, until everything is delivered.

        Return the names of the pipelines.  Raise ST820 if they cannot be read at the beginning,
        unless it is ``patient``: then it looks again.
        """
        if patient:
            self._look()
        else:
            self._follow(load_definitions(self.runtime, self.file), once=once)
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
            self._follow(load_definitions(self.runtime, self.file), once=False)
            self.error = None
        except TrickleError as error:
            if str(error) != str(self.error):
                logger.warning("pipelines are not reloaded: %s: %s", error.code, error)
            self.error = error

    def _follow(self, definitions: Sequence[Definition], *, once: bool) -> None:
        wanted = {one.name: one for one in definitions if not self.names or one.name in self.names}
        for name in self.names:
            if name not in wanted and once:
                raise PipelineMissingError(f"there is no pipeline {name[:80]!r}")
        changed = [n for n, one in self.pipelines.items() if wanted.get(n) != one.definition]
        self._end(changed)
        for name, definition in wanted.items():
            if name not in self.pipelines:
                self._begin(definition, once=once)

    def _begin(self, definition: Definition, *, once: bool) -> None:
        seconds = self.runtime.settings.lease_seconds
        dsn = dsn_of(self.runtime)
        pipeline = Pipeline(dsn, definition, self.holder, seconds, once=once)
        thread = threading.Thread(target=pipeline.run, name=f"relay {definition.name}", daemon=True)
        self.pipelines[definition.name], self._threads[definition.name] = pipeline, thread
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
                    give_back(connection, one.definition.name, self.holder)

    def _keep(self) -> None:
        """Say what pipelines do, keep them for this relay, and hear what is wanted of them."""
        try:
            self._keep_all(list(self.pipelines.values()))
        except TrickleError as error:  # a pipeline that is not kept notices by itself
            logger.warning("states are not recorded: %s: %s", error.code, error)

    def _keep_all(self, pipelines: Sequence[Pipeline]) -> None:
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
                    "in_flight": doing.in_flight,
                    "code": None if error is None else error.code,
                    "error": None if error is None else str(error)[:2000],
                    "hint": None if error is None else error.hint[:2000],
                }
                kept = keep(connection, values)
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
