"""Processes that are killed at a named step, and how what they leave behind is judged."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fixtures.daemons import await_
from tests.labs.lab import Lab

_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend'"
)


class HalfError(AssertionError):
    """A process has left something between before and after."""


class LostError(AssertionError):
    """What comes after a process that was killed does not lead to the right contents."""


@contextmanager
def all_or_nothing() -> Iterator[None]:
    """Judge what there is right after a kill."""
    try:
        yield
    except AssertionError as error:
        raise HalfError(str(error)) from error


@contextmanager
def nothing_lost() -> Iterator[None]:
    """Judge what follows a kill."""
    try:
        yield
    except AssertionError as error:
        raise LostError(str(error)) from error


def killed(lab: Lab, module: str, *arguments: str) -> None:
    """Let a process die at a step, and wait until the server has undone what it had begun."""
    command = [sys.executable, "-m", f"tests.service.lifecycle.{module}", lab.trickle.dsn]
    before = lab.value(_OTHERS)
    ended = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    if ended.returncode != -signal.SIGKILL:
        raise RuntimeError(f"{arguments} was not killed: {ended.stderr}")
    await_(lambda: lab.value(_OTHERS) <= before)
