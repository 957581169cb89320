"""Local files of the lake, reached from their root step by step, without following a link.

Each directory is opened relative to the one before, so that a user who can rename or link files
below the root cannot redirect a read, a write or a removal, not even between two steps.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from typing import BinaryIO

from pgtrickle.errors import LakePathError
from pgtrickle.lake.files.roots import LocalPath, shown

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # may be a link: it is on record
# Without blocking, as a pipe without a writer would.
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_directory(path: LocalPath) -> None:
    """Create a directory and its parents, unless they exist."""
    mode = _directory_mode(path.file_mode)
    with suppress(FileExistsError):
        os.makedirs(path.root, mode)  # noqa: PTH103 - beside the other calls of os
        os.chmod(path.root, mode)  # noqa: PTH101
    with _directory(path, _names(path), mode):
        pass


def is_directory(path: LocalPath) -> bool:
    """Tell whether a directory exists; any other reason why it cannot be opened is raised."""
    with suppress(FileNotFoundError), _directory(path, _names(path)):
        return True
    return False


def open_new(path: LocalPath) -> BinaryIO:
    """Open a new file for writing; it must not exist."""
    with _parent(path) as (parent, name):
        number = os.open(name, _NEW, path.file_mode, dir_fd=parent)
    os.fchmod(number, path.file_mode)  # whatever the mask of the process is
    return os.fdopen(number, "wb")


def open_old(path: LocalPath) -> BinaryIO:
    """Open a regular file for reading."""
    with _parent(path) as (parent, name), _no_link(path):
        number = os.open(name, _OLD, dir_fd=parent)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise _misled(path, "which is not a regular file")
    return os.fdopen(number, "rb")


def remove(path: LocalPath) -> None:
    """Remove a file; of a link, the link."""
    with _parent(path) as (parent, name):
        os.unlink(name, dir_fd=parent)


def list_files(directory: LocalPath, pattern: str) -> Iterator[tuple[LocalPath, float]]:
    """Yield the regular files below a directory, each with the time when it was written."""
    with suppress(FileNotFoundError), _directory(directory, _names(directory)) as number:
        for place, _, names, here in os.fwalk(".", dir_fd=number, follow_symlinks=False):
            for name in sorted(names):
                if not fnmatch(name, pattern):
                    continue
                with suppress(FileNotFoundError, LakePathError):  # gone meanwhile; a foreign name
                    found = os.stat(name, dir_fd=here, follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        yield directory / place / name, found.st_mtime


def _directory_mode(file_mode: int) -> int:
    """Return the mode of a directory whose files have this mode.

    >>> [oct(_directory_mode(mode)) for mode in (0o600, 0o640, 0o664)]
    ['0o700', '0o750', '0o775']
    """
    return file_mode | (file_mode & 0o444) >> 2


def _names(path: LocalPath) -> list[str]:
    return [one for one in path.below.split("/") if one]


@contextmanager
def _parent(path: LocalPath) -> Iterator[tuple[int, str]]:
    *above, name = _names(path) or [""]
    if not name:
        raise _misled(path, "which is a directory")
    with _directory(path, above) as number:
        yield number, name


@contextmanager
def _directory(path: LocalPath, names: list[str], mode: int | None = None) -> Iterator[int]:
    """Open a directory; with a mode, missing ones are created."""
    found = os.open(path.root, _ROOT)
    try:
        for name in names:
            above, found = found, _step_down(found, name, path, mode)
            os.close(above)
        yield found
    finally:
        os.close(found)


def _step_down(above: int, name: str, path: LocalPath, mode: int | None) -> int:
    made = False
    if mode is not None:
        with suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=above)
            made = True
    with _no_link(path):
        found = os.open(name, _DIRECTORY, dir_fd=above)
    if made and mode is not None:
        os.fchmod(found, mode)  # whatever the mask of the process is
    return found


@contextmanager
def _no_link(path: LocalPath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Linux reports a link as "not a directory" if a directory was requested.
        if error.errno not in {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}:
            raise
        raise _misled(path, "which leads elsewhere or is not a regular file") from error


def _misled(path: LocalPath, why: str) -> LakePathError:
    return LakePathError(
        f'a catalog of the lake names "{shown(str(path))}", {why}',
        hint="Below the data path of a lake there are directories and files, and no links. See who"
        " put it there.",
    )
