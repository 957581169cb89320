"""Check whether the settings allow a query to read relations without triggers."""

from __future__ import annotations

from collections.abc import Iterator

from pgtrickle.errors import TrickleError, UnsupportedSourceError
from pgtrickle.service.compile import Compiled
from pgtrickle.settings import Settings


def check_polled(settings: Settings, compiled: Compiled) -> None:
    """Refuse the first source that would have to be polled but must not be."""
    for problem in polling_problems(settings, compiled):
        raise problem


def polling_problems(settings: Settings, compiled: Compiled) -> Iterator[TrickleError]:
    """Yield an error for each source that must not be polled."""
    allowed = {"m": settings.matview_polling, "f": settings.foreign_table_polling}
    kinds = {
        "m": ("a materialized view", "PGTRICKLE_MATVIEW_POLLING"),
        "f": ("a foreign table", "PGTRICKLE_FOREIGN_TABLE_POLLING"),
    }
    for relation in compiled.binding.query.relations.values():
        if relation.polled and not allowed[relation.kind]:
            kind, variable = kinds[relation.kind]
            yield UnsupportedSourceError(
                f'"{relation.name}" is {kind}, which has no triggers and is not polled',
                hint=f"To read all its rows at each refresh, set {variable}=true.",
            )
