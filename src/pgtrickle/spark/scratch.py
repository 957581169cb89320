"""A private directory for what Spark writes aside, and for what must be handed to executors.

Whoever is killed leaves it behind.  A process holds a lock on a file in its own as long as it
lives, so that the next one can tell, in whatever container it runs, and removes what nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "pgtrickle-spark-"
_LOCK = "in-use"


class Scratch:
    """One directory, ours alone, until it is removed."""

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock: int | None = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove all of it; twice does no harm."""
        lock, self._lock = self._lock, None
        if lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(lock)


def sweep(directory: Path) -> None:
    """Remove the directories of this user's processes that have ended."""
    for path in directory.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # removed meanwhile, or not ours to look into
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
