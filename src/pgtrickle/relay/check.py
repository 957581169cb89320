"""Look at pipelines before they run: their definitions, their secrets, and their receivers."""

from __future__ import annotations

import socket
from pathlib import Path

from pgtrickle.errors import PipelineMissingError
from pgtrickle.relay.run import load_definitions
from pgtrickle.relay.sinks.entry import make_sink
from pgtrickle.relay.source import Source, dsn_of
from pgtrickle.service.runtime import Runtime


def check_definitions(runtime: Runtime, file: Path | None) -> list[str]:
    """Check all pipelines, with their secrets and their stream tables; return their names."""
    definitions = load_definitions(runtime, file)
    for one in definitions:
        make_sink(one).close()
        source = Source(dsn_of(runtime), one, socket.gethostname())
        try:
            source.find_start()
        finally:
            source.close()
    return [one.name for one in definitions]


def check_receiver(runtime: Runtime, name: str, file: Path | None) -> str:
    """Reach the receiver of a pipeline and let it go again; return what it promises."""
    definition = next((one for one in load_definitions(runtime, file) if one.name == name), None)
    if definition is None:
        raise PipelineMissingError(f"there is no pipeline {name[:80]!r}")
    sink = make_sink(definition)
    source = Source(dsn_of(runtime), definition, socket.gethostname())
    try:
        sink.open(source.stream, source.schema())
    finally:
        sink.close()
        source.close()
    return sink.guarantee.value
