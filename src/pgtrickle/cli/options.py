"""The options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        envvar="PGTRICKLE_DSN",
        show_default=False,
        help="Connection string of the database. Without one: a private embedded server.",
    ),
]
Local = Annotated[
    bool, typer.Option("--local", help="Do the work in this process, even if a daemon runs.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Name = Annotated[str, typer.Argument(help="Stream table, as schema.name.", show_default=False)]
