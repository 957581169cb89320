"""``bulk_create``: create several stream tables or, if one of them fails, none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pgtrickle.errors import TrickleError

DefinitionT = TypeVar("DefinitionT")
MadeT = TypeVar("MadeT")


def create_all(
    definitions: Iterable[DefinitionT],
    create: Callable[[DefinitionT], MadeT],
    drop: Callable[[MadeT], object],
) -> list[MadeT]:
    """Create one after the other; if one fails, drop those created before it."""
    made: list[MadeT] = []
    for index, definition in enumerate(definitions):
        try:
            made.append(create(definition))
        except TrickleError as error:
            for one in reversed(made):
                drop(one)
            error.detail = "\n".join(
                filter(None, (f"This is number {index}, counted from 0.", error.detail))
            )
            raise
    return made
