"""``pgtrickle create NAME``: define a stream table and fill it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import report_document, stream_table_document
from pgtrickle.cli.options import Dsn, Json, Local, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.progress import showing_progress
from pgtrickle.cli.query_text import decoded
from pgtrickle.cli.stream_table_options import taking_options
from pgtrickle.cli.stream_tables.refresh import describe
from pgtrickle.cli.stream_tables.runs_as import runs_as
from pgtrickle.options.option import OptionVerb

_STDIN = "-"
_IF_NOT_EXISTS = "create_stream_table_if_not_exists"


@taking_options(OptionVerb.CREATE)
def create(
    ctx: typer.Context,
    name: Name,
    *,
    source: Annotated[
        str | None,
        typer.Argument(metavar="[-]", help="A dash reads the query from standard input."),
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", metavar="SQL", help="The defining query.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="File that holds the query.", exists=True, dir_okay=False
        ),
    ] = None,
    or_replace: Annotated[
        bool,
        typer.Option("--or-replace", help="If it exists, change it to match this definition."),
    ] = False,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="If it exists, leave it as it is.")
    ] = False,
    options: dict[str, Any],
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Create a stream table from a query and fill it."""
    text = _read_query(source, query, file)
    if or_replace and if_not_exists:
        raise typer.BadParameter("give --or-replace or --if-not-exists, not both")
    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn, new_server=True, local=local) as trickle,
    ):
        with showing_progress(trickle, f"Creating {name}"):
            if or_replace or if_not_exists:
                verb = "create_or_replace_stream_table" if or_replace else _IF_NOT_EXISTS
                outcome = getattr(trickle, verb)(name, text, **options)
                status, report = outcome.status, outcome.report
            else:
                status, report = "created", trickle.create_stream_table(name, text, **options)
        table = trickle.get_stream_table(name)
        if as_json:
            refresh = None if report is None else report_document(report)
            document = {"outcome": status, "stream_table": stream_table_document(table)}
            print_json(document | {"refresh": refresh})
            return
        stdout().print(f"{table.name}: {status}", markup=False)
        if table.downgrade_reason:
            stdout().print(runs_as(table), markup=False)
        for note in table.pinned:
            stdout().print(f"note: {note}", markup=False)
        if report is not None:
            stdout().print(describe(report), markup=False)


def _read_query(source: str | None, query: str | None, file: Path | None) -> str:
    if sum(given is not None for given in (source, query, file)) != 1:
        raise typer.BadParameter("give the query in one way: --query, --file or - for stdin")
    if query is not None:
        return query
    if file is not None:
        return decoded(file.read_bytes(), str(file))
    if source != _STDIN:
        raise typer.BadParameter("put --query before the SQL, or - to read standard input")
    return decoded(sys.stdin.buffer.read(), "standard input")
