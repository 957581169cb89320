"""How a command reaches pgtrickle.

The package is imported on first use, because that takes longer than ``--help`` should.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from pgtrickle.cli.output import stderr, working
from pgtrickle.cli.setup import Setup
from pgtrickle.errors import SettingError
from pgtrickle.settings import find_unknown_variables

if TYPE_CHECKING:  # see the docstring of this module
    from pgtrickle import Trickle


@contextmanager
def connected(
    ctx: typer.Context, dsn: str | None, *, new_server: bool = False, local: bool = True
) -> Iterator[Trickle]:
    """Connect to the database of the user's choice, or to the embedded server.

    Only with ``new_server`` is an embedded server made where there is none.  Unless the work is to
    be ``local``, a daemon that lives does it.
    """
    check_dsn(dsn)
    tell_where(ctx, dsn)
    doing = "Connecting to PostgreSQL" if dsn else "Starting the embedded PostgreSQL"
    with working(doing):
        connection = ctx.ensure_object(Setup).connect(dsn, init=None if new_server else False)
    with ExitStack() as stack:
        trickle = stack.enter_context(connection)
        yield trickle if local else _beside_daemon(ctx, trickle)
        with working("Stopping"):  # for some seconds after the first use of Spark
            stack.close()


def _beside_daemon(ctx: typer.Context, trickle: Trickle) -> Trickle:
    from pgtrickle.client.commands import beside_daemon  # noqa: PLC0415 - see above

    quiet, console = ctx.ensure_object(Setup).quiet, stderr()
    told: set[str] = set()

    def tell(text: str) -> None:
        if not quiet and text not in told:  # once, and not for each of several stream tables
            told.add(text)
            console.print(Text(text))

    return beside_daemon(trickle, tell)


def tell_where(ctx: typer.Context, dsn: str | None) -> None:
    """Say that no database was named, and which settings in the environment nobody knows."""
    if ctx.ensure_object(Setup).quiet:
        return
    console = stderr()
    for unknown in find_unknown_variables():
        console.print(Text(f"warning: {unknown}"))
    if not dsn:
        home = Path(os.environ.get("PGTRICKLE_HOME") or ".pgtrickle").expanduser().resolve()
        console.print(Text(f"using the private server in {home}: PGTRICKLE_DSN is not set"))


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
