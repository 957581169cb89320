"""Telling on the terminal how far a refresh is.

On a terminal one line changes in place.  Elsewhere a large refresh prints a plain line every few
seconds (``PGTRICKLE_PROGRESS_SECONDS``) to standard error, so that a log shows that it lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.text import Text

from pgtrickle.cli.output import stderr
from pgtrickle.model.report import Progress

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle


@contextmanager
def showing_progress(trickle: Trickle, doing: str) -> Iterator[None]:
    """Show that something takes a while and, if it is a large refresh, how far it is."""
    console = stderr()
    if not console.is_terminal or console.is_dumb_terminal:
        trickle.on_progress(lambda progress: console.print(Text(describe_progress(progress))))
        try:
            yield
        finally:
            trickle.on_progress(None)
        return
    with console.status(Text(f"{doing} ...")) as status:
        trickle.on_progress(lambda progress: status.update(Text(describe_progress(progress))))
        try:
            yield
        finally:
            trickle.on_progress(None)


def describe_progress(progress: Progress) -> str:
    """Say in one line how far a refresh is.

    >>> describe_progress(Progress("public.t", "group_1", 1200000, 35, 12.34))
    'public.t: group_1: 1,200,000 rows read, 35 staged, 12 s'
    """
    return (
        f"{progress.stream_table}: {progress.stage}: {progress.rows_read:,} rows read,"
        f" {progress.rows_staged:,} staged, {progress.seconds:.0f} s"
    )
