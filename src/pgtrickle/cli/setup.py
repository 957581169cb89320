"""The values that the commands of one invocation share, carried by Typer's context object."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle


def _connect(dsn: str | None, *, init: bool | None = None) -> AbstractContextManager[Trickle]:
    from pgtrickle import connect  # noqa: PLC0415 - takes longer than --help should

    return connect(dsn, init=init)


@dataclass(slots=True)
class Setup:
    """How to reach pgtrickle, which a test may replace, and how much to say about errors."""

    connect: Callable[..., AbstractContextManager[Trickle]] = _connect
    debug: bool = False
    quiet: bool = False  # says neither where it works nor what is misspelled
