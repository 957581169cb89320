"""Create the data directory, completely or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from pgtrickle.embedded.access import SUPERUSER
from pgtrickle.embedded.binaries import Binaries
from pgtrickle.embedded.home import Base
from pgtrickle.errors import EmbeddedServerError

# Settings that a user may change later with ALTER SYSTEM; access rules are not among them.
_SETTINGS = """
# Added by pgtrickle.
max_connections = 100
shared_buffers = 128MB
wal_level = logical
max_prepared_transactions = 10
timezone = 'UTC'
log_timezone = 'UTC'
"""
_FIRST_WITH_BUILTIN_LOCALE = 17


def make_data_directory(base: Base, binaries: Binaries) -> None:
    """Run initdb if there is no data directory yet, and check the version if there is.

    initdb works in a draft that is renamed when it is complete, so that a crash in the middle
    leaves nothing that looks like a database.
    """
    if base.data.exists():
        _check_version(base.data, binaries)
        return
    for leftover in base.directory.glob("data.draft-*"):
        shutil.rmtree(leftover)
    draft = Path(tempfile.mkdtemp(prefix="data.draft-", dir=base.directory))
    give_to_server(draft, base)
    _initdb(base, binaries, draft)
    settings = os.open(draft / "postgresql.conf", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
    with os.fdopen(settings, "a") as file:
        file.write(_SETTINGS)
    draft.rename(base.data)


def give_to_server(directory: Path, base: Base) -> None:
    """Give a directory that we created to the account that runs the server, and to no other."""
    # By descriptor: a link in place of the directory must not give its target away.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(descriptor, 0o700)
        if base.account.foreign:
            os.fchown(descriptor, base.account.uid, base.account.gid)
    finally:
        os.close(descriptor)


def _initdb(base: Base, binaries: Binaries, draft: Path) -> None:
    command = [binaries.initdb, "-D", str(draft), "-U", SUPERUSER, "--encoding=UTF8"]
    command += ["--auth-local=peer", "--auth-host=reject", "--no-instructions"]
    attempts = [["--locale=C.UTF-8"]]
    if binaries.major >= _FIRST_WITH_BUILTIN_LOCALE:
        builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        # The system may lack the locale C.UTF-8; PostgreSQL's own is always there.
        attempts = [[*builtin, "--locale=C.UTF-8"], [*builtin, "--locale=C"]]
    for locale in attempts:
        done = base.account.run([*command, *locale])
        if done.returncode == 0:
            return
    raise EmbeddedServerError(
        "could not make the embedded server's data directory",
        detail=done.stdout.strip(),
        hint=f'See that "{base.directory}" has space and may be written to, or set PGTRICKLE_HOME.',
    )


def _check_version(data: Path, binaries: Binaries) -> None:
    made_by = (data / "PG_VERSION").read_text().strip()
    if made_by != str(binaries.major):
        raise EmbeddedServerError(
            f"cannot start PostgreSQL {binaries.major} on data of PostgreSQL {made_by}",
            detail=f'The data directory is "{data}".',
            hint=f"Set PGTRICKLE_PG_BINDIR to the programs of PostgreSQL {made_by}.",
        )
