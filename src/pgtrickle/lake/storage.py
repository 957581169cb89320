"""Files of the lake, in a local directory or in a bucket of a store that speaks S3.

Credentials and the address of the store come from the environment, under the names that everybody
uses for them (``AWS_ACCESS_KEY_ID`` and so on), so no path, catalog or log holds them.  A path is
made by ``Roots.place`` alone, which says below which directory it must lie; local files are reached
from there without following a symbolic link (see ``local_files``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from functools import lru_cache
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from pgtrickle.lake import local_files
from pgtrickle.lake.roots import SCHEME, LakePath, LocalPath, S3Path

# A delivery holds the refresh up: a store that does not answer must not do so for long.
_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 30.0
_ATTEMPTS = 3


def make_directory(path: LakePath) -> None:
    """Make a directory; a bucket has none."""
    if isinstance(path, LocalPath):
        local_files.make_directory(path)


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
    """Tell whether a file can be found."""
    if isinstance(path, LocalPath):
        with suppress(FileNotFoundError), local_files.open_old(path):
            return True
        return False
    found: bool = _store().get_file_info(path.key).is_file
    return found


def remove(path: LakePath) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        if isinstance(path, LocalPath):
            local_files.remove(path)
        else:
            _store().delete_file(path.key)


def list_files(directory: LakePath, pattern: str) -> Iterator[tuple[LakePath, float]]:
    """Yield the files below a directory, each with how many seconds ago it was written."""
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
    # Named by who asks, so that other credentials in the environment are another store.
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
        background_writes=False,  # what fails is told by the write that met it
        allow_delayed_open=True,  # a small file is one request
    )
