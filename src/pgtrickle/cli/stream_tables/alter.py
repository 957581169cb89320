"""``pgtrickle alter NAME``: change how a stream table is maintained, or its query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import stream_table_document
from pgtrickle.cli.options import Dsn, Json, Local, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.progress import showing_progress
from pgtrickle.cli.query_text import read_query
from pgtrickle.cli.stream_table_options import taking_options
from pgtrickle.cli.stream_tables.runs_as import runs_as
from pgtrickle.options.option import OptionVerb


@taking_options(OptionVerb.ALTER)
def alter(
    ctx: typer.Context,
    name: Name,
    *,
    query: Annotated[
        str | None,
        typer.Option(
            "--query",
            "-q",
            metavar="SQL",
            help="The new query, whose rows replace the contents at once; - reads standard input.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="File that holds the new query.", exists=True, dir_okay=False
        ),
    ] = None,
    options: dict[str, Any],
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Change the query or the options of a stream table; the others stay as they are."""
    text = None if query is None and file is None else read_query(query, file)
    if text is None and all(one is None for one in options.values()):
        flags = [f"--{name.replace('_', '-')}" for name in ("query", "file", *options)]
        raise typer.BadParameter(f"say what to change: {', '.join(flags[:-1])} or {flags[-1]}")
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        with showing_progress(trickle, f"Altering {name}"):
            table = trickle.alter_stream_table(name, query=text, **options)
        if as_json:
            print_json(stream_table_document(table))
            return
        stdout().print(
            f"{table.name}: {table.status.value}, schedule {table.schedule},"
            f" mode {table.refresh_mode.value}, {runs_as(table)}",
            markup=False,
        )
