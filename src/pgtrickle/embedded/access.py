"""Access to the embedded server: the OS users that may connect through its private Unix socket.

The rules are beside the data directory, not in it, and are written at each start: the
account that runs the server for root cannot change them.
"""

from __future__ import annotations

from pathlib import Path

from pgtrickle.embedded.account import welcome_names
from pgtrickle.embedded.home import Base
from pgtrickle.embedded.own_files import write_whole

SUPERUSER = "postgres"

_ACCESS_RULES = """\
# Written by pgtrickle at each start.
local all all peer map=owner
"""
# From this version on, a map line may allow every role instead of one.
_FIRST_WITH_ALL = 16


def write_access_rules(base: Base, *, major: int) -> tuple[Path, Path]:
    """Write ``pg_hba.conf`` and ``pg_ident.conf`` for the base and return their paths."""
    role = "all" if major >= _FIRST_WITH_ALL else SUPERUSER
    lines = [f"owner {_quote(name)} {role}" for name in welcome_names(base.directory)]
    access, identity = base.directory / "pg_hba.conf", base.directory / "pg_ident.conf"
    for path, text in ((access, _ACCESS_RULES), (identity, "\n".join([*lines, ""]))):
        write_whole(path, text, mode=0o644)
    return access, identity


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
