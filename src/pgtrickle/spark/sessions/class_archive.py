"""An archive of the classes that Spark's JVM loads: with it the JVM starts in half the time.

When it ends, a JVM can save its loaded classes; at the next start it maps them into memory
instead of reading, checking and linking them one by one (class data sharing).  The first process
that stops Spark has the archive written, into the user's cache directory, and waits the few seconds
that takes; later ones use it.  A long-running process lets another process write it
(``record_classes``).  An archive belongs to one Java runtime and one installation of Spark: a JVM
that finds it unfit continues without it.

No other user may write to the directory, because an archive is code that the JVM runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

_FORGOTTEN_AFTER = 30 * 86_400.0  # seconds without use
_NAME = "spark-{}.jsa"
_LOCK = "recording"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one installation: it exists, or is written when the JVM ends."""

    path: Path
    draft: Path | None  # where the JVM writes it; None: it exists

    @property
    def java_options(self) -> str:
        """The options of the JVM, quoted as Spark reads them."""
        if self.draft is None:
            return f'"-XX:SharedArchiveFile={self.path}"'
        return f'"-XX:ArchiveClassesAtExit={self.draft}"'

    def keep(self) -> None:
        """Move the JVM's archive to its place, if the JVM ended normally.

        A runtime that wrote nothing is not tried again: an empty file marks it.
        """
        if self.draft is None:
            return
        # Another process may do the same: whole files replace each other.
        whole = self.path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            try:
                if self.draft.exists():
                    shutil.move(self.draft, whole)
                else:
                    whole.touch()
                whole.replace(self.path)
            finally:
                whole.unlink(missing_ok=True)
            _forget_unused(self.path.parent)


def find_archive(java_version: str, scratch: Path) -> ClassArchive | None:
    """Return the archive for this runtime and this Spark; None if there can be none."""
    spec = find_spec("pyspark")
    directory = _own_directory()
    if spec is None or spec.origin is None or directory is None:
        return None
    jars = Path(spec.origin).parent / "jars"
    try:
        installed = str(jars.stat().st_mtime_ns)
    except OSError:
        return None
    path = directory / _NAME.format(
        _digest([java_version, version("pyspark"), str(jars), installed])
    )
    try:
        size = path.stat().st_size
    except OSError:
        return ClassArchive(path, scratch / "classes.jsa")
    if not size:
        return None
    with suppress(OSError):
        os.utime(path)  # in use
    return ClassArchive(path, None)


def lock_of_archives() -> Path | None:
    """Return the file that a process locks while it writes an archive beside others."""
    directory = _own_directory()
    return None if directory is None else directory / _LOCK


def _own_directory() -> Path | None:
    """Return the user's cache directory of pgtrickle, if it is theirs alone."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        directory = (Path(base) if base else Path.home() / ".cache") / "pgtrickle"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except (OSError, RuntimeError):  # the latter: no home
        return None
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return directory if found.st_uid == os.geteuid() and not others_write else None


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _forget_unused(directory: Path) -> None:
    for one in directory.glob(_NAME.format("*")):
        if time.time() - one.stat().st_mtime > _FORGOTTEN_AFTER:
            one.unlink(missing_ok=True)
