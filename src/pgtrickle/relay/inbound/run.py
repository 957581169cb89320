"""A relay that receives: the inbound pipelines from brokers to inboxes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.inbound.states import create, give_back, keep, list_definitions
from pgtrickle.catalog.inboxes.config import get_inbox
from pgtrickle.errors import PipelineMissingError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.relay.attempts import Doing
from pgtrickle.relay.engine import Engine, join_definitions
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


def load_inbound(runtime: Runtime, file: Path | None) -> list[InboundDefinition]:
    """Return all inbound pipelines, those of a file and those of the catalog; or raise ST820."""
    own = [] if file is None else read_inbound_file(file)
    with runtime.connection() as connection:
        stored = list_definitions(connection)
    return join_definitions(
        own, stored, lambda name, given: read_inbound(name, given, from_file=False)
    )


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
class InboundRelay(Engine[InboundDefinition]):
    """Receives pipelines until it is stopped."""

    word: ClassVar[str] = "inbound pipeline"
    thread: ClassVar[str] = "inbound"

    def _load(self) -> list[InboundDefinition]:
        return load_inbound(self.runtime, self.file)

    def _make(self, definition: InboundDefinition, *, once: bool) -> InboundPipeline:
        seconds = self.runtime.settings.lease_seconds
        return InboundPipeline(dsn_of(self.runtime), definition, self.holder, seconds, once=once)

    def _record(
        self, connection: Connection[TupleRow], values: dict[str, object], doing: Doing
    ) -> tuple[bool, int] | None:
        kept = keep(connection, {**values, "lag": doing.lag})
        return None if kept is None else (kept.paused, kept.wake)

    def _give_back(self, connection: Connection[TupleRow], name: str) -> None:
        give_back(connection, name, self.holder)
