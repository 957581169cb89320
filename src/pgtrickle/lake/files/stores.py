"""Files of the lake, in a local directory or in a bucket of an S3-compatible store.

Credentials and the address of the store come from the environment, under the usual names
(``AWS_ACCESS_KEY_ID`` and so on), so no path, catalog or log holds them.  A path is made only by
``Roots.place``, which checks that it is below a known directory; local files are opened from there
without following a symbolic link (see ``local``).
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from functools import lru_cache
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from pgtrickle.lake.files import local as local_files
from pgtrickle.lake.files.roots import SCHEME, LakePath, LocalPath, S3Path

# A delivery delays the refresh: a store that does not answer must not do so for long.
_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 30.0
_ATTEMPTS = 3


def make_directory(path: LakePath) -> None:
    """Create a directory; a bucket has none."""
    if isinstance(path, LocalPath):
        local_files.make_directory(path)


def is_lost(path: LakePath) -> bool:
    """Tell whether a directory with files of the lake is missing; a bucket has none."""
    return isinstance(path, LocalPath) and not local_files.is_directory(path)


def try_out(directory: LakePath) -> None:
    """Write a small file and remove it again; raises if that fails."""
    make_directory(directory)
    path = directory / f"ducklake-{uuid.uuid4()}.parquet"  # swept, should it stay behind
    try:
        with open_output(path) as file:
            file.write(b"PAR1")
    finally:
        with suppress(OSError):
            remove(path)


def open_output(path: LakePath) -> pa.NativeFile:
    """Open a new file for writing."""
    if isinstance(path, LocalPath):
        return pa.PythonFile(local_files.open_new(path), "w")
    return _store().open_output_stream(path.key)


def open_input(path: LakePath) -> pa.NativeFile:
    """Open a file for reading at any position."""
    if isinstance(path, LocalPath):
        return pa.PythonFile(local_files.open_old(path), "r")
    return _store().open_input_file(path.key)


def is_there(path: LakePath) -> bool:
    """Tell whether a file exists."""
    if isinstance(path, LocalPath):
        with suppress(FileNotFoundError), local_files.open_old(path):
            return True
        return False
    found: bool = _store().get_file_info(path.key).is_file
    return found


def remove(path: LakePath) -> None:
    """Remove a file, if it exists."""
    with suppress(FileNotFoundError):
        if isinstance(path, LocalPath):
            local_files.remove(path)
        else:
            _store().delete_file(path.key)


def list_files(directory: LakePath, pattern: str) -> Iterator[tuple[LakePath, float]]:
    """Yield the files below a directory, each with its age in seconds."""
    now = time.time()
    if isinstance(directory, LocalPath):
        for path, written_at in local_files.list_files(directory, pattern):
            yield path, now - written_at
        return
    selector = fs.FileSelector(directory.key, allow_not_found=True, recursive=True)
    for info in _store().get_file_info(selector):
        if info.type == fs.FileType.File and fnmatch(info.base_name, pattern):
            yield S3Path(SCHEME + info.path), now - info.mtime.timestamp()


def _store() -> fs.S3FileSystem:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    # Keyed by credentials, so that other credentials in the environment are another store.
    return _open_store(endpoint, region, os.environ.get("AWS_ACCESS_KEY_ID"), os.getpid())


@lru_cache(maxsize=8)
def _open_store(
    endpoint: str | None,
    region: str | None,
    _key: str | None,
    _process: int,
) -> fs.S3FileSystem:
    address = urlsplit(endpoint) if endpoint else None
    return fs.S3FileSystem(
        endpoint_override=address.netloc if address else None,
        scheme=address.scheme if address else "https",
        region=region,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        background_writes=False,  # a failure is raised by its own write
        allow_delayed_open=True,  # a small file is one request
    )
