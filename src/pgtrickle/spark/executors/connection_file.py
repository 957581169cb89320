"""Give executors the connection string of PostgreSQL without showing a password.

Options of a data source appear in plans, the UI and logs, so they contain only the path of a file
that only its owner can read.  Executors on other machines, which have no such file, take the DSN
from their own environment; they log in as the driver's role, which the name of the file contains.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from pgtrickle.errors import ConnectionLostError

_VARIABLE = "PGTRICKLE_DSN"
_NAME = "connection-"


@contextmanager
def connection_file(dsn: str, scratch: Path | None = None) -> Iterator[Path]:
    """Keep the DSN in a private file for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="pgtrickle-", dir=scratch) as directory:
        # Here and not above: Spark plans a read in processes that never connect.
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - see above

        user = str(conninfo_to_dict(dsn).get("user") or "")
        path = Path(directory) / f"{_NAME}{quote(user, safe='')}"
        # Created with its final permissions: at no moment can another user open it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(dsn)
        yield path


def read_connection(path: str) -> str:
    """Return the DSN of a connection file, or of the environment if the file is missing."""
    file = Path(path)
    if path and file.is_file():
        return file.read_text()
    if dsn := os.environ.get(_VARIABLE):
        from psycopg.conninfo import make_conninfo  # noqa: PLC0415 - see above

        user = unquote(file.name.removeprefix(_NAME)) if file.name.startswith(_NAME) else ""
        return make_conninfo(dsn, user=user) if user else dsn
    raise ConnectionLostError(
        "an executor does not know how to reach PostgreSQL",
        hint=f"Set {_VARIABLE} in the environment of the executors.",
    )
