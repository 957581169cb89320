"""``pgtrickle explain NAME``: show how a stream table is maintained."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_text


class ExplainFormat(Enum):
    """The forms in which a plan can be printed."""

    TEXT = "text"
    JSON = "json"
    DOT = "dot"


def explain(
    ctx: typer.Context,
    name: Name,
    form: Annotated[
        ExplainFormat | None,
        typer.Option("--format", case_sensitive=False, help="text (the default), json or dot."),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the operators, reads and Spark SQL of a stream table's refresh."""
    if as_json and form not in (None, ExplainFormat.JSON):
        raise typer.BadParameter("--json and --format contradict each other")
    chosen = ExplainFormat.JSON if as_json else form or ExplainFormat.TEXT
    as_json = chosen is ExplainFormat.JSON
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        print_text(trickle.explain_stream_table(name, format=chosen.value).rstrip("\n"))
