"""A relay that delivers: the pipelines from outboxes to receivers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.relay.states import give_back, keep, list_definitions
from pgtrickle.relay.attempts import Doing
from pgtrickle.relay.definitions import Definition, read_definition, read_file
from pgtrickle.relay.engine import Engine, join_definitions
from pgtrickle.relay.pipeline import Pipeline
from pgtrickle.relay.source import dsn_of
from pgtrickle.service.runtime import Runtime


def load_definitions(runtime: Runtime, file: Path | None) -> list[Definition]:
    """Return all pipelines, those of a file and those of the catalog; or raise ST820."""
    own = [] if file is None else read_file(file)
    with runtime.connection() as connection:
        stored = list_definitions(connection)
    return join_definitions(
        own, stored, lambda name, given: read_definition(name, given, from_file=False)
    )


@dataclass(slots=True)
class Relay(Engine[Definition]):
    """Delivers pipelines until it is stopped."""

    word: ClassVar[str] = "pipeline"
    thread: ClassVar[str] = "relay"

    def _load(self) -> list[Definition]:
        return load_definitions(self.runtime, self.file)

    def _make(self, definition: Definition, *, once: bool) -> Pipeline:
        seconds = self.runtime.settings.lease_seconds
        return Pipeline(dsn_of(self.runtime), definition, self.holder, seconds, once=once)

    def _record(
        self, connection: Connection[TupleRow], values: dict[str, object], doing: Doing
    ) -> tuple[bool, int] | None:
        return keep(connection, {**values, "in_flight": doing.in_flight})

    def _give_back(self, connection: Connection[TupleRow], name: str) -> None:
        give_back(connection, name, self.holder)
