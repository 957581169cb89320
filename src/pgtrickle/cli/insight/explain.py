"""``pgtrickle explain NAME``: show how a stream table is maintained."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json, Local, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_text
from pgtrickle.cli.progress import showing_progress
from pgtrickle.cli.waiting import Wait, when_free


class ExplainFormat(Enum):
    """The forms in which a plan can be printed."""

    TEXT = "text"
    JSON = "json"
    DOT = "dot"
    MERMAID = "mermaid"
    HTML = "html"


def explain(
    ctx: typer.Context,
    *,
    name: Name,
    form: Annotated[
        ExplainFormat | None,
        typer.Option(
            "--format",
            case_sensitive=False,
            help="text (the default), json, dot, mermaid or html.",
        ),
    ] = None,
    analyze: Annotated[
        bool,
        typer.Option(
            "--analyze",
            help="Run the reads and stages of the next refresh, measure them, and roll back.",
        ),
    ] = False,
    wait: Wait = True,
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the operators, reads and Spark SQL of a stream table's refresh.

    With --analyze the reads and stages of the next refresh run, each statement is measured by
    PostgreSQL and each stage by Spark, and everything is rolled back.
    """
    if as_json and form not in (None, ExplainFormat.JSON):
        raise typer.BadParameter("--json and --format contradict each other")
    chosen = ExplainFormat.JSON if as_json else form or ExplainFormat.TEXT
    as_json = chosen is ExplainFormat.JSON
    here = local or not analyze  # a plan needs no engine
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=here) as trickle:

        def act() -> str:
            return trickle.explain_stream_table(name, chosen.value, with_analyze=analyze)

        if not analyze:
            told = act()
        else:
            with showing_progress(trickle, f"Rehearsing {name}"):
                told = when_free(trickle, name, act, wait=wait)
        print_text(told.rstrip("\n"))
