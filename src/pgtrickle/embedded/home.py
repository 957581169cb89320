"""The directories of one embedded server.

The *home* (``.pgtrickle`` in the project, ``PGTRICKLE_HOME``, or the caller's choice) holds the
lock and the list of users.  The *base* holds the server's data, socket, log and access rules;
it is the home itself, except when root's project cannot be entered by the unprivileged account
that runs the server.  Then it is a directory in ``/var/tmp``, and the home's file ``location``
says which.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from pgtrickle.embedded.account import Account, choose_account
from pgtrickle.embedded.own_files import write_whole
from pgtrickle.errors import CatalogMissingError, EmbeddedServerError

logger = logging.getLogger(__name__)

_ELSEWHERE = Path("/var/tmp")  # noqa: S108 (survives a reboot; ownership is checked before use)
_ELSEWHERE_PREFIX = "pgtrickle-"
_LOCATION_NOTE = """\
The embedded server's data lives there: this directory cannot be entered by the unprivileged
account that runs the server on behalf of root.
"""


@dataclass(frozen=True, slots=True)
class Base:
    """The server's own directories, and the account that runs it."""

    directory: Path
    account: Account

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory, made by initdb."""
        return self.directory / "data"

    @property
    def socket(self) -> Path:
        """The directory of the Unix socket, unless its path is too long for one."""
        return self.directory / "socket"

    @property
    def log(self) -> Path:
        """The log of the server."""
        return self.directory / "server.log"


@dataclass(frozen=True, slots=True)
class Home:
    """The directory by which the processes of one project find one another."""

    directory: Path

    @property
    def lock(self) -> Path:
        """The file locked while the server is started, joined or stopped."""
        return self.directory / "lock"

    @property
    def users(self) -> Path:
        """The list of processes that use the server."""
        return self.directory / "users.json"

    @property
    def location(self) -> Path:
        """The file that names the base, if it is elsewhere."""
        return self.directory / "location"


def find_home(directory: Path | None = None) -> Path:
    """Return the home directory, whether it exists or not.

    Links are resolved, so that one directory has one name: it identifies the server.
    """
    chosen = directory or Path(os.environ.get("PGTRICKLE_HOME") or ".pgtrickle")
    return chosen.expanduser().resolve()


def check_home(directory: Path | None, *, init: bool) -> None:
    """Raise ST203 if there is no server yet and none should be created."""
    home = find_home(directory)
    if not init and not home.exists():
        raise CatalogMissingError(
            f'there is no private server in "{home}" yet',
            hint="Make one with: pgtrickle init, or name your own database with --dsn or"
            " PGTRICKLE_DSN.",
        )


def open_home(directory: Path | None) -> Home:
    """Create the home directory if it is missing, with a file that keeps it out of git."""
    home = Home(find_home(directory))
    try:
        if not home.directory.exists():
            home.directory.mkdir(parents=True, exist_ok=True)
            # Root lets the server's account reach its own directories, but not list others.
            home.directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
            write_whole(home.directory / ".gitignore", "*\n")
        if not os.access(home.directory, os.W_OK | os.X_OK):
            raise PermissionError(f'no permission to write to "{home.directory}"')
    except OSError as error:
        raise EmbeddedServerError(
            f'cannot keep an embedded server in "{home.directory}"',
            detail=str(error),
            hint="Set PGTRICKLE_HOME to a directory that you may write to.",
        ) from error
    return home


def open_base(home: Home) -> Base:
    """Return the base of the server, creating the directory if needed.  Needs the lock."""
    if home.location.exists():
        return _base_elsewhere(home, Path(home.location.read_text().splitlines()[0]))
    account = choose_account(home.directory / "data", home.directory)
    if not account.foreign or account.may_enter(home.directory):
        return Base(home.directory, account)
    project = hashlib.sha256(os.fsencode(home.directory)).hexdigest()[:16]
    return _base_elsewhere(home, _ELSEWHERE / f"{_ELSEWHERE_PREFIX}{project}")


def check_own_directory(directory: Path) -> None:
    """Refuse a directory in a public place that another user created or can write to."""
    status = directory.lstat()
    safe = (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
    if not safe:
        raise EmbeddedServerError(
            f'cannot trust the directory "{directory}"',
            detail="Another user made it or can write to it.",
            hint=f'Look at it, and remove it with: rm -r "{directory}".',
        )


def _base_elsewhere(home: Home, directory: Path) -> Base:
    if directory.parent != _ELSEWHERE or not directory.name.startswith(_ELSEWHERE_PREFIX):
        raise EmbeddedServerError(
            f'cannot keep an embedded server in "{directory}"',
            hint=f'Remove the file that names it: "{home.location}".',
        )
    account = choose_account(directory / "data")
    if not directory.exists():
        if home.location.exists():
            logger.warning("embedded server's data is gone", extra={"path": str(directory)})
        directory.mkdir()
        directory.chmod(0o711)
    check_own_directory(directory)
    write_whole(home.location, f"{directory}\n{_LOCATION_NOTE}")
    return Base(directory, account)
