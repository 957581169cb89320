"""Create a pipeline in the catalog, after a look at its definition."""

from __future__ import annotations

from typing import Any

from pgtrickle.catalog.relay.states import create
from pgtrickle.relay.definitions import read_definition
from pgtrickle.relay.sinks.entry import check_kind
from pgtrickle.service.runtime import Runtime


def create_pipeline(
    runtime: Runtime, name: str, given: dict[str, Any], *, or_replace: bool
) -> None:
    """Record a pipeline; raise ST820 if its definition cannot be used.

    Its secrets are where the relay runs, so they are not looked for.
    """
    check_kind(read_definition(name, given, from_file=False))
    with runtime.connection() as connection:
        create(connection, name, given, or_replace=or_replace)
