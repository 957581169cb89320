"""The lock that lets one process at a time start, join or stop the embedded server."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgtrickle.embedded.own_files import open_own
from pgtrickle.errors import EmbeddedServerError

# Longer than the slowest legitimate holder: a first start with initdb on a busy machine.
_PATIENCE_SECONDS = 180.0
_POLL_SECONDS = 0.02


@contextmanager
def exclusive_lock(path: Path, *, patience_seconds: float = _PATIENCE_SECONDS) -> Iterator[None]:
    """Hold the lock on ``path`` for the length of the block.

    The kernel drops the lock when its holder dies, however it dies, so the file left behind
    means nothing.  The descriptor is not inherited: a server started under the lock does not
    hold it.
    """
    try:
        descriptor = open_own(path, os.O_RDWR)
    except OSError as error:
        raise EmbeddedServerError(
            f'cannot open the embedded server\'s lock "{path}"',
            detail=str(error),
            hint="Set PGTRICKLE_HOME to a directory of your own.",
        ) from error
    try:
        _acquire(descriptor, path, patience_seconds)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, patience_seconds: float) -> None:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            # Another process starts or stops the server; it may be initdb, so wait patiently.
            if time.monotonic() > deadline:
                raise EmbeddedServerError(
                    "could not lock the embedded server's directory",
                    detail=f'Another process has held "{path}" for {patience_seconds:g} seconds.',
                    hint=f'Find it with: fuser "{path}".',
                ) from error
            time.sleep(_POLL_SECONDS)
        else:
            return
