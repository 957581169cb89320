"""The list of processes that use the server, so that the last one to leave stops it.

Every function expects the caller to hold the lock.  A process that died without leaving is
dropped whenever the list is read, so it cannot keep the server alive forever.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from pgtrickle.embedded.own_files import write_whole
from pgtrickle.embedded.processes import started


@dataclass(frozen=True, slots=True)
class User:
    """One use of the server: a process may hold several, each left by its own token."""

    pid: int
    started: str
    token: str

    @property
    def alive(self) -> bool:
        """Whether the very process that joined still runs."""
        return started(self.pid) == self.started


def list_users(path: Path) -> list[User]:
    """Return the users whose process still runs."""
    return [user for user in _read(path) if user.alive]


def join(path: Path) -> User:
    """Add the current process to the list."""
    pid = os.getpid()
    user = User(pid=pid, started=started(pid) or "", token=uuid.uuid4().hex)
    _write(path, [*list_users(path), user])
    return user


def leave(path: Path, user: User) -> list[User]:
    """Remove one use from the list and return those that remain."""
    remaining = [other for other in list_users(path) if other.token != user.token]
    _write(path, remaining)
    return remaining


def _read(path: Path) -> list[User]:
    try:
        return [User(**entry) for entry in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError):
        # The file is replaced whole, so only a manual edit or a broken disk makes it unreadable; a
        # process in it loses at most the connection to the server, never data.
        return []


def _write(path: Path, users: list[User]) -> None:
    write_whole(path, json.dumps([asdict(user) for user in users], indent=1))
