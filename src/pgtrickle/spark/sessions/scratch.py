"""A private directory for Spark's temporary files, and for files for the executors.

A killed process leaves it behind.  A process holds a lock on a file in its directory as long as it
lives, so that the next one, in any container, can find and remove directories without a lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from pgtrickle.errors import SparkFailedError

_PREFIX = "pgtrickle-spark-"
_LOCK = "in-use"
_ATTEMPTS = 10


class Scratch:
    """One private directory, until it is removed."""

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        for _ in range(_ATTEMPTS):
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self._lock: int | None = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if (self.path / _LOCK).exists():
                return
            os.close(self._lock)  # another process swept it before the lock was taken
        raise SparkFailedError(
            f"the temporary directory of Spark is removed again and again: {self.path}",
            hint="Set TMPDIR to a directory that nobody else tidies up.",
        )

    def remove(self) -> None:
        """Remove all of it; may be called twice."""
        lock, self._lock = self._lock, None
        if lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(lock)


def sweep(directory: Path) -> None:
    """Remove the directories of this user's processes that have ended."""
    for path in directory.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # removed meanwhile, or not readable
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    lock = os.open(path / _LOCK, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
