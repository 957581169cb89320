"""The OS account that runs the server, since PostgreSQL refuses to run as root.

An ordinary user runs it directly.  Root runs it as the owner of the data directory, and for a
new directory as an account without privileges that every system has.  No account is ever
added, and nothing outside the server's own directories changes owner or mode.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pgtrickle.errors import EmbeddedServerError

# Not "postgres" first: a server installed on the machine keeps its own data under that account.
STAND_INS = ("nobody", "postgres", "daemon")

_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Account:
    """An OS account, and whether running a command as it means changing to it."""

    name: str
    uid: int
    gid: int

    @property
    def foreign(self) -> bool:
        """Whether this is another account than the one the process runs as."""
        return self.uid != os.geteuid()

    def may_enter(self, directory: Path) -> bool:
        """Tell whether the account can reach ``directory`` through all of its parents."""
        return self.run(["/bin/sh", "-c", 'cd -- "$1"', "sh", str(directory)]).returncode == 0

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command as the account to its end; its output comes back as one text."""
        process = self.spawn(command, output=subprocess.PIPE)
        output, _ = process.communicate()
        text = output.decode(errors="replace")
        return subprocess.CompletedProcess(list(command), process.returncode, text)

    def spawn(self, command: Sequence[str], *, output: int | IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a command as the account, detached from our terminal, directory and variables."""
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=_environment(os.environ),
                # Ctrl-C in the terminal is for the user's program, not for the server.
                start_new_session=True,
                umask=0o077,
                user=self.uid if self.foreign else None,
                group=self.gid if self.foreign else None,
                extra_groups=[] if self.foreign else None,
            )
        except PermissionError as error:
            raise EmbeddedServerError(
                f'cannot run "{command[0]}" as "{self.name}"',
                detail=str(error),
                hint="Run as an ordinary user, or set PGTRICKLE_DSN to a server of your own.",
            ) from error


def choose_account(data: Path, home: Path | None = None) -> Account:
    """Return the account for the server whose data directory is ``data``.

    Before there is one, root uses the owner of ``home``, so that the server of a user's project
    stays that user's.
    """
    known = next((path for path in (data, home) if path and path.exists()), None)
    owner = known.lstat().st_uid if known else None
    current = os.geteuid()
    if current != 0:
        if owner not in {None, current}:
            raise EmbeddedServerError(
                "cannot use an embedded server that belongs to another user",
                detail=f'"{data}" belongs to user id {owner}, this process runs as {current}.',
                hint="Set PGTRICKLE_HOME to a directory of your own.",
            )
        return _account_of(current)
    if owner:
        return _account_of(owner)
    uids = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    for name in STAND_INS:
        if name in uids:
            return _account_of(uids[name])
    raise EmbeddedServerError(
        "cannot find an unprivileged account to run the embedded server",
        detail=f"None of {', '.join(STAND_INS)} exists, and PostgreSQL refuses to run as root.",
        hint="Run as an ordinary user, or set PGTRICKLE_DSN to a server of your own.",
    )


def welcome_names(directory: Path) -> list[str]:
    """Return the OS users who may connect: root, ourselves, and the owner of ``directory``.

    An account that only acts for root owns the data but not the directory around it, and
    its other processes may not connect.
    """
    uids = {0, os.geteuid(), directory.stat().st_uid}
    return sorted(_account_of(uid).name for uid in uids)


def _account_of(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError as error:
        # PostgreSQL itself looks up the name, in initdb and to check connections.
        raise EmbeddedServerError(
            f"cannot run the embedded server as user id {uid}, which has no name",
            hint="Run as a user listed in /etc/passwd, or set PGTRICKLE_DSN to another server.",
        ) from error
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    # No PG* variables: PGDATA, PGPORT or PGOPTIONS of the user's shell concern another server.
    kept = {name: variables[name] for name in _KEPT_VARIABLES if name in variables}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}
