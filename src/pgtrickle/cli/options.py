"""The options that every command shares."""

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
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
SinkPath = Annotated[
    str | None,
    typer.Option(
        "--ducklake-sink-path", help="Directory of the lake's files; default: the catalog's own."
    ),
]
LakeTable = Annotated[
    str | None,
    typer.Option("--ducklake-table", help="Table of the lake; default: main and the same name."),
]
Name = Annotated[str, typer.Argument(help="Stream table, as schema.name.", show_default=False)]
