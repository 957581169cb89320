"""Repeat an action from a thread during a block of work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from psycopg import Connection

from pgtrickle.errors import TrickleError
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)


@contextmanager
def repeated(
    runtime: Runtime,
    what: str,
    seconds: float,
    act: Callable[[Connection], object],
    *,
    first: float | None = None,
) -> Iterator[None]:
    """Call ``act`` every ``seconds`` until the block ends; a failure is only logged.

    The first time is after ``first``, if that is given.

    The thread ends with the block: it never interferes with the caller's next step.
    """
    done = threading.Event()

    def work() -> None:
        wait = seconds if first is None else first
        while not done.wait(wait):
            wait = seconds
            try:
                with runtime.connection() as connection:
                    act(connection)
            except TrickleError as error:
                logger.warning("could not %s", what, extra={"code": error.code})

    thread = threading.Thread(target=work, name=f"pgtrickle: {what}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
