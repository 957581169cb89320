"""Waiting while another works on a stream table, as a CALL does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.text import Text

from pgtrickle.cli.output import stderr
from pgtrickle.errors import LeaseHeldError
from pgtrickle.model.text.printable import printable_line

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle

T = TypeVar("T")

Wait = Annotated[
    bool,
    typer.Option(
        "--wait/--no-wait", help="Wait while another process works on it, or fail at once."
    ),
]


def when_free(trickle: Trickle, name: str, act: Callable[[], T], *, wait: bool) -> T:
    """Do what needs a lease, again until nobody else has it, and say once what is waited for.

    ``pg_trickle.request_timeout`` bounds the wait; Ctrl-C ends it.
    """
    from pgtrickle.client import commands  # noqa: PLC0415 - takes longer than --help should

    def tell(why: str) -> None:
        stderr().print(Text(f"waiting for {name}: {printable_line(why)}"))

    seconds = (commands.request_timeout(trickle) or None) if wait else 0
    try:
        return commands.when_free(trickle, act, seconds, tell)
    except LeaseHeldError as error:
        if wait:
            error.hint = (
                "Try again later, or wait longer, in seconds (0: no limit):"
                " PGOPTIONS='-c pg_trickle.request_timeout=3600'."
            )
        raise
