"""The folder of a project: its files are read whole, within limits, and from nowhere else.

A folder may come from somebody else.  So no link leads out of it, nothing but plain files is
opened, and neither the number of files nor their size can exhaust the memory.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pgtrickle.errors import ProjectFileError

PROJECT_FILE = "pgtrickle.yml"
MOST_FILES = 10_000
MOST_BYTES = 1 << 20  # of one file
_MOST_IN_ALL = 1 << 26
_DEEPEST = 16
# O_NONBLOCK: opening a named pipe would wait for a writer.
_HOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Folder:
    """The folder of one project."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._root = path.resolve(strict=True)
            is_folder = self._root.is_dir()
        except OSError as error:
            raise _unreadable(path, str(error.strerror)) from error
        if not is_folder:
            raise _unreadable(path, "it is not a folder")
        self._read = 0

    def read(self, name: str) -> str:
        """Return the text of a file, by its path within the folder."""
        path = self._inside(name)
        try:
            handle = os.open(path, _HOW)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise _unreadable(path, "it is not a plain file")
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise _unreadable(path, str(error.strerror)) from error
        self._read += len(content)
        if len(content) > MOST_BYTES:
            raise _unreadable(path, f"it is larger than {MOST_BYTES >> 10} KiB")
        if self._read > _MOST_IN_ALL:
            raise _unreadable(self.path, f"it holds more than {_MOST_IN_ALL >> 20} MiB")
        try:
            return content.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise _unreadable(path, "it is not text in UTF-8") from error

    def list_queries(self, below: str) -> list[str]:
        """Return the files with queries in a folder and those below it, in order."""
        start = self._inside(below)
        if not start.is_dir():
            return []
        found = sorted(self._walk(start))
        if len(found) > MOST_FILES:
            raise _unreadable(start, f"it holds more than {MOST_FILES} files")
        return found

    def _walk(self, start: Path) -> Iterator[str]:
        seen = 0
        for folder, folders, files in os.walk(start):
            here = Path(folder).relative_to(self._root)
            if len(here.parts) >= _DEEPEST:
                raise _unreadable(Path(folder), f"it is nested more than {_DEEPEST} deep")
            folders[:] = [one for one in folders if not one.startswith(".")]
            seen += len(files)
            if seen > 10 * MOST_FILES:
                raise _unreadable(start, f"it holds more than {10 * MOST_FILES} files")
            for file in files:
                if file.endswith(".sql") and not file.startswith("."):
                    yield (here / file).as_posix()

    def _inside(self, name: str) -> Path:
        """Return the path of a file in the folder, and of nothing elsewhere."""
        given = PurePosixPath(name)
        if given.is_absolute() or ".." in given.parts or "\0" in name:
            raise _unreadable(Path(name), "it is not a path within the project")
        path = self._root / given
        # No part of it may be a link that leads elsewhere; the file itself may be none at all.
        if not path.parent.resolve().is_relative_to(self._root):
            raise _unreadable(path, "it lies outside of the project")
        if path.is_dir() and not path.resolve().is_relative_to(self._root):
            raise _unreadable(path, "it lies outside of the project")
        return path


def _unreadable(path: Path, why: str) -> ProjectFileError:
    return ProjectFileError(
        f"{path} cannot be read: {why}",
        hint=f"A project is a folder with {PROJECT_FILE} and files of SQL; begin one with:"
        " pgtrickle init-project.",
    )
