"""Where files of the lake lie: in a local directory, or in a bucket of a store that speaks S3.

Credentials and the address of the store come from the environment, under the names that everybody
uses for them (``AWS_ACCESS_KEY_ID`` and so on), so no path, catalog or log holds them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

_SCHEME = "s3://"
# A delivery holds the refresh up: a store that does not answer must not do so for long.
_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 30.0
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, order=True)
class S3Path:
    """An object of a bucket, or what the names of several begin with."""

    url: str

    def __truediv__(self, name: str) -> S3Path:
        return S3Path(f"{self.url.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the name.

        >>> S3Path("s3://lake/main/orders/x.parquet").name
        'x.parquet'
        """
        return self.url.rstrip("/").rpartition("/")[2]

    @property
    def key(self) -> str:
        """The bucket and the name in it, as Arrow writes them."""
        return self.url.removeprefix(_SCHEME)


LakePath = Path | S3Path


def lake_path(text: str) -> LakePath:
    """Return a path by its text."""
    return S3Path(text) if text.startswith(_SCHEME) else Path(text)


def is_usable(text: str) -> bool:
    """Tell whether files can be written below a path.

    >>> [is_usable(text) for text in ("/data/lake", "s3://bucket/lake", "lake", "gs://bucket")]
    [True, True, False, False]
    >>> is_usable("s3://key:secret@bucket/lake")
    False
    """
    if not text.startswith(_SCHEME):
        return "://" not in text and Path(text).is_absolute()
    parts = urlsplit(text)
    return bool(parts.netloc) and not any(sign in parts.netloc for sign in "@:") and not parts.query


def make_directory(path: LakePath) -> None:
    """Make a directory; a bucket has none."""
    if isinstance(path, Path):
        path.mkdir(parents=True, exist_ok=True)


def open_output(path: LakePath) -> pa.NativeFile:
    """Open a new file for writing."""
    if isinstance(path, Path):
        return pa.OSFile(str(path), "wb")
    return _store().open_output_stream(path.key)


def open_input(path: LakePath) -> pa.NativeFile:
    """Open a file for reading at any position."""
    if isinstance(path, Path):
        return pa.OSFile(str(path), "rb")
    return _store().open_input_file(path.key)


def is_there(path: LakePath) -> bool:
    """Tell whether a file can be found."""
    if isinstance(path, Path):
        return path.is_file()
    found: bool = _store().get_file_info(path.key).is_file
    return found


def remove(path: LakePath) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        if isinstance(path, Path):
            path.unlink()
        else:
            _store().delete_file(path.key)


def list_files(directory: LakePath, pattern: str) -> Iterator[tuple[LakePath, float]]:
    """Yield the files below a directory, each with how many seconds ago it was written."""
    now = time.time()
    if isinstance(directory, Path):
        for path in sorted(directory.rglob(pattern)):
            with suppress(FileNotFoundError):  # removed by somebody else meanwhile
                yield path, now - path.stat().st_mtime
        return
    selector = fs.FileSelector(directory.key, allow_not_found=True, recursive=True)
    for info in _store().get_file_info(selector):
        if info.type == fs.FileType.File and fnmatch(info.base_name, pattern):
            yield S3Path(_SCHEME + info.path), now - info.mtime.timestamp()


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
