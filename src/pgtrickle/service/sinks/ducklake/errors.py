"""Exceptions of files and of the lake's catalog, turned into errors with a code."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from pgtrickle.errors import LakeShapeError, LakeWriteError
from pgtrickle.service.runtime import translated_errors

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ESTALE, errno.ENODEV})


@contextmanager
def lake_errors() -> Iterator[None]:
    """Turn what files and the lake's catalog may throw into errors with a code."""
    try:
        with translated_errors():
            yield
    except OSError as error:  # Arrow's errors of reading and writing are among them
        raise LakeWriteError(f"could not write to the lake: {error}", hint=_hint(error)) from error
    except pa.ArrowException as error:
        raise LakeShapeError(
            f"rows cannot be written to the lake: {error}",
            hint="See what the stream table holds, and what others did to the lake table. Dropped"
            " in DuckDB, it is written again.",
        ) from error


def _hint(error: OSError) -> str:
    """Say what to do about a file that could not be written.

    >>> _hint(OSError(errno.ENOSPC, "No space left on device"))
    'Make room where the files of the lake lie.'
    """
    if error.errno in _FULL:
        return "Make room where the files of the lake lie."
    if error.errno in _CLOSED:
        return f"Let {_who()} write to the directory of the lake."
    if error.errno in _GONE:
        return f"See that the directory of the lake is there, mounted, and that {_who()} finds it."
    return (
        "See that the storage of the lake answers: the disk or the network; of an object store also"
        " its address and the credentials, in the variables AWS_*."
    )


def _who() -> str:
    """Return which user of the system writes the files."""
    with suppress(KeyError):  # a container may have users without a name
        return f'the user "{pwd.getpwuid(os.geteuid()).pw_name}" of the system'
    return f"the user {os.geteuid()} of the system"
