"""``pgtrickle top``: look at stream tables live, in the terminal."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json
from pgtrickle.errors import SettingError
from pgtrickle.extras import require

if TYPE_CHECKING:  # takes longer to import than --help should
    from pgtrickle import Trickle


def top(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Begin with this stream table.", show_default=False)
    ] = None,
    every: Annotated[
        float, typer.Option(min=0.2, max=3600, help="Ask the database every so many seconds.")
    ] = 1.0,
    log: Annotated[
        Path | None,
        typer.Option(help="Show the end of this log file, too.", show_default=False),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Look at stream tables, sources, daemons and refreshes live, in the terminal.

    Keys and panels: press ?. With --json, print what it shows, once. The database is only read,
    with the rights of a reader; actions ask first and need the rights of their commands.
    """
    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn, local=as_json) as trickle,
    ):
        if as_json:
            print_json(trickle.insight.picture(name=name).document())
        else:
            _run(trickle, name, every, log)


def _run(trickle: Trickle, name: str | None, every: float, log: Path | None) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SettingError(
            "top needs a terminal", hint="For scripts: pgtrickle top --json, or pgtrickle status."
        )
    require("textual")
    from pgtrickle.console.terminal.app import Console  # noqa: PLC0415 - see above
    from pgtrickle.console.watching import Watch  # noqa: PLC0415 - see above

    subject = None if name is None else str(trickle.get_stream_table(name).name)
    watch = Watch(trickle, log)
    watch.listen()
    gc.freeze()  # modules and classes stay: they are not looked through again each second
    try:
        Console(watch, trickle, seconds=every, subject=subject, plain=_is_plain()).run()
    finally:
        watch.close()


def _is_plain() -> bool:
    """Whether the terminal has no colours, or its user wants none."""
    return "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") in {"dumb", "vt100", "vt220"}
