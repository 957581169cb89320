"""How a command reaches pgtrickle.

The package is imported on first use, because that takes longer than ``--help`` should.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import typer

from pgtrickle.cli.output import working
from pgtrickle.cli.setup import Setup
from pgtrickle.errors import SettingError

if TYPE_CHECKING:  # see the docstring of this module
    from pgtrickle import Trickle


@contextmanager
def connected(ctx: typer.Context, dsn: str | None) -> Iterator[Trickle]:
    """Connect to the database of the user's choice, or to the embedded server."""
    check_dsn(dsn)
    doing = "Connecting to PostgreSQL" if dsn else "Starting the embedded PostgreSQL"
    with working(doing):
        connection = ctx.ensure_object(Setup).connect(dsn)
    with ExitStack() as stack:
        yield stack.enter_context(connection)
        with working("Stopping"):  # for some seconds after the first use of Spark
            stack.close()


def check_dsn(dsn: str | None) -> None:
    """Refuse a connection string that libpq cannot read, without quoting any of it.

    libpq's own message repeats the part it stumbled over, which may be the password.
    """
    if not dsn:
        return
    from psycopg import ProgrammingError  # noqa: PLC0415 - takes longer than --help should
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - takes longer than --help should

    try:
        conninfo_to_dict(dsn)
    except ProgrammingError:
        raise SettingError(
            "the connection string cannot be read",
            hint="Write postgresql://user@host:5432/database or host=... dbname=..., with"
            " special characters percent-encoded or quoted.",
        ) from None
