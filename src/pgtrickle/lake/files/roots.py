"""The directories that may contain the files of a lake, whatever the rows of its catalog say.

A role that may write to the catalog of a lake, such as a DuckDB client's, can name any file.  So a
name becomes a path only here, if it is below a directory that this database has on record.
"""

from __future__ import annotations

import os
import posixpath
import unicodedata
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from pgtrickle.errors import LakePathError

SCHEME = "s3://"
PRIVATE = 0o600
_LONGEST = 4096  # characters; a file system allows no more, an object store fewer


@dataclass(frozen=True, slots=True, order=True)
class LocalPath:
    """A file or directory below a root of the local file system."""

    root: str
    below: str  # without a slash at its ends, and without . and ..; empty: the root itself
    file_mode: int = PRIVATE

    def __truediv__(self, name: str) -> LocalPath:
        below = "/".join(_split(f"{self.below}/{name}", f"{self}/{name}"))
        return LocalPath(self.root, below, self.file_mode)

    def __str__(self) -> str:
        return posixpath.join(self.root, self.below)

    @property
    def name(self) -> str:
        """The last part of the name."""
        return str(self).rpartition("/")[2]


@dataclass(frozen=True, slots=True, order=True)
class S3Path:
    """An object of a bucket, or the prefix of several objects."""

    url: str

    def __truediv__(self, name: str) -> S3Path:
        return S3Path(
            f"{self.url.rstrip('/')}/{'/'.join(_split(name, f'{self}/{name}', strict=True))}"
        )

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
        return self.url.removeprefix(SCHEME)


LakePath = LocalPath | S3Path


def is_usable(text: str) -> bool:
    """Tell whether files can be written below a path.

    >>> [is_usable(text) for text in ("/data/lake", "s3://bucket/lake", "lake", "gs://bucket")]
    [True, True, False, False]
    >>> is_usable("s3://key:secret@bucket/lake"), is_usable("/data/../lake"), is_usable("/")
    (False, False, False)
    """
    if len(text) > _LONGEST or _find_control(text) or ".." in text.split("/"):
        return False
    if not text.startswith(SCHEME):
        return "://" not in text and text.startswith("/") and bool(text.strip("/."))
    parts = urlsplit(text)
    return bool(parts.netloc) and not any(sign in parts.netloc for sign in "@:") and not parts.query


@dataclass(frozen=True, slots=True)
class Roots:
    """Directories and prefixes of buckets, with the mode of new files in them."""

    paths: tuple[str, ...]
    file_mode: int = PRIVATE

    def place(self, text: str) -> LakePath:
        """Return the path of a text in a catalog, or raise ST708.

        >>> str(Roots(("/data/lake",)).place("/data/lake//main/orders/x.parquet"))
        '/data/lake/main/orders/x.parquet'
        >>> Roots(("/data/lake",)).place("/data/lake/../../etc/passwd")
        Traceback (most recent call last):
        pgtrickle.errors.LakePathError: a catalog of the lake names "/data/lake/../../etc/passwd"...
        >>> str(Roots(("s3://lake/a",)).place("s3://lake/a/k=x%2Fy/x.parquet"))
        's3://lake/a/k=x%2Fy/x.parquet'
        """
        for root in self.paths:
            found = (
                _below_bucket(root, text) if root.startswith(SCHEME) else self._local(root, text)
            )
            if found is not None:
                return found
        raise _outside(text, f"which is not below {_listed(self.paths)}")

    def _local(self, root: str, text: str) -> LocalPath | None:
        top = _absolute(root)
        parts, above = _split(_absolute(text), text), _split(top, top)
        if "://" in text or not above or parts[: len(above)] != above:
            return None
        return LocalPath("/" + "/".join(above), "/".join(parts[len(above) :]), self.file_mode)


def same_place(one: str, other: str) -> bool:
    """Tell whether two texts name one directory.

    >>> same_place("/data//lake/", "/data/lake"), same_place("s3://a//b", "s3://a/b/")
    (True, False)
    """
    if one.startswith(SCHEME) or other.startswith(SCHEME):
        return one.rstrip("/") == other.rstrip("/")
    return PurePosixPath(_absolute(one)) == PurePosixPath(_absolute(other))


def shown(text: str) -> str:
    r"""Return a foreign text in a form that is safe for a terminal or a log.

    >>> shown("a" + chr(27) + "[2Jb")
    'a\\x1b[2Jb'
    """
    cut = text if len(text) <= 200 else f"{text[:200]}..."
    # Invisible characters, and marks of direction, are written as numbers.
    hidden = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    return "".join(ascii(one)[1:-1] if unicodedata.category(one) in hidden else one for one in cut)


def _absolute(text: str) -> str:
    # A catalog may have been created with a path relative to its clients' directory.
    return text if text.startswith("/") else posixpath.join(os.getcwd(), text)  # noqa: PTH109


def _below_bucket(root: str, text: str) -> S3Path | None:
    prefix = root.rstrip("/") + "/"
    if not text.startswith(prefix):
        return None
    rest = text.removeprefix(prefix)
    below = "/".join(_split(rest.rstrip("/"), text, strict=True)) if rest.strip("/") else ""
    return S3Path(prefix + below)


def _split(path: str, text: str, *, strict: bool = False) -> list[str]:
    """Return the names in a path; an object store knows no names that mean another place."""
    if len(text) > _LONGEST or len(path) > _LONGEST:
        raise _outside(text, "which is too long")
    if _find_control(path) or _find_control(text):
        raise _outside(text, "with a control character")
    names = path.split("/")
    if ".." in names:
        raise _outside(text, "which leads upwards")
    if not strict:
        return [one for one in names if one not in {"", "."}]
    if "" in names or "." in names:
        raise _outside(text, "with a part that is not a name")
    return names


def _find_control(text: str) -> bool:
    return any(unicodedata.category(one) in {"Cc", "Cs"} for one in text)


def _listed(paths: tuple[str, ...]) -> str:
    return " or ".join(f'"{shown(path)}"' for path in paths) or "any directory on record"


def _outside(text: str, why: str) -> LakePathError:
    return LakePathError(
        f'a catalog of the lake names "{shown(text)}", {why}',
        hint="Find out who wrote that path to the catalog. If the files are there on purpose, name"
        " the directory: with ducklake_read_paths, or the option data_path in Spark.",
    )
