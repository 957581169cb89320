"""A relay in reverse: its inbound pipelines, a thread each; it follows their definitions."""

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
from typing import Any

from pgtrickle.catalog.inbound.states import create, give_back, keep, list_definitions
from pgtrickle.catalog.inboxes.config import get_inbox
from pgtrickle.errors import PipelineError, PipelineMissingError, TrickleError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.relay.inbound.definitions import (
    InboundDefinition,
    read_inbound,
    read_inbound_file,
)
from pgtrickle.relay.inbound.origins.origin import make_origin
from pgtrickle.relay.inbound.pipeline import InboundPipeline
from pgtrickle.relay.inbound.read import Reader
from pgtrickle.relay.secrets import resolve
from pgtrickle.relay.source import dsn_of
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_ROUND = 1.0  # seconds between two looks at the definitions
_PATIENCE = 20.0  # seconds for which a pipeline may finish what it does


def load_inbound(runtime: Runtime, file: Path | None) -> list[InboundDefinition]:
    """Return all inbound pipelines, those of a file and those of the catalog; or raise ST820."""
    own = [] if file is None else read_inbound_file(file)
    with runtime.connection() as connection:
        stored = list_definitions(connection)
    names = {one.name for one in own}
    for name, _ in stored:
        if name in names:
            raise PipelineError(
                f"the pipeline {name} is in the file and in the catalog",
                hint="Drop it in one of them.",
            )
    return own + [read_inbound(name, given, from_file=False) for name, given in stored]


def create_inbound(runtime: Runtime, name: str, given: dict[str, Any], *, or_replace: bool) -> None:
    """Record a pipeline; raise ST820 if its definition cannot be used.

    Its secrets are where the relay runs, so they are not looked for.
    """
    read_inbound(name, given, from_file=False)
    with runtime.connection() as connection:
        create(connection, name, given, or_replace=or_replace)


def check_inbound(runtime: Runtime, file: Path | None) -> list[str]:
    """Check all pipelines, with their secrets and inboxes, and reach no broker."""
    definitions = load_inbound(runtime, file)
    for one in definitions:
        options = resolve(one.options, trusted=one.from_file)
        Reader.take(one.name, options)
        make_origin(one, options).close()
        with runtime.connection() as connection:
            get_inbox(connection, QualifiedName.parse(one.inbox)).check()
    return [one.name for one in definitions]


def reach_origin(runtime: Runtime, name: str, file: Path | None) -> int | None:
    """Reach the broker of a pipeline; return how many messages it has, if that is known."""
    found = next((one for one in load_inbound(runtime, file) if one.name == name), None)
    if found is None:
        raise PipelineMissingError(f"there is no inbound pipeline {name[:80]!r}")
    options = resolve(found.options, trusted=found.from_file)
    Reader.take(found.name, options)
    origin = make_origin(found, options)
    try:
        origin.open({})
        return origin.lag()
    finally:
        origin.close()


@dataclass(slots=True)
class InboundRelay:
    """Receives pipelines until it is stopped."""

    runtime: Runtime
    file: Path | None = None
    names: Sequence[str] = ()  # all if there are none
    holder: str = field(
        default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    )
    pipelines: dict[str, InboundPipeline] = field(default_factory=dict)
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _wakes: dict[str, int] = field(default_factory=dict)
    error: TrickleError | None = None  # why definitions were not read again

    def run(
        self,
        stop: threading.Event,
        *,
        once: bool = False,
        each_round: Callable[[], None] = lambda: None,
    ) -> set[str]:
        """Receive until ``stop`` is set; with ``once``, until nothing more comes.

        Return the names of the pipelines.
        """
        self._follow(load_inbound(self.runtime, self.file), once=once)
        done = set(self.pipelines)
        try:
            while not stop.wait(0.05 if once else _ROUND):
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

    def _look(self) -> None:
        """Follow the definitions as they are now; those that cannot be read change nothing."""
        try:
            self._follow(load_inbound(self.runtime, self.file), once=False)
            self.error = None
        except TrickleError as error:
            if str(error) != str(self.error):
                logger.warning("pipelines are not reloaded: %s: %s", error.code, error)
            self.error = error

    def _follow(self, definitions: Sequence[InboundDefinition], *, once: bool) -> None:
        wanted = {one.name: one for one in definitions if not self.names or one.name in self.names}
        for name in self.names:
            if name not in wanted and once:
                raise PipelineMissingError(f"there is no inbound pipeline {name[:80]!r}")
        self._end([n for n, one in self.pipelines.items() if wanted.get(n) != one.definition])
        for name, definition in wanted.items():
            if name not in self.pipelines:
                self._begin(definition, once=once)

    def _begin(self, definition: InboundDefinition, *, once: bool) -> None:
        seconds = self.runtime.settings.lease_seconds
        pipeline = InboundPipeline(
            dsn_of(self.runtime), definition, self.holder, seconds, once=once
        )
        thread = threading.Thread(
            target=pipeline.run, name=f"inbound {definition.name}", daemon=True
        )
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

    def _keep_all(self, pipelines: Sequence[InboundPipeline]) -> None:
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
                    "lag": doing.lag,
                    "code": None if error is None else error.code,
                    "error": None if error is None else str(error)[:2000],
                    "hint": None if error is None else error.hint[:2000],
                }
                kept = keep(connection, values)
                if kept is None:
                    continue
                doing.retries -= retries
                if kept.paused:
                    pipeline.paused.set()
                else:
                    pipeline.paused.clear()
                if self._wakes.setdefault(name, kept.wake) != kept.wake:
                    self._wakes[name] = kept.wake
                    pipeline.wake.set()
