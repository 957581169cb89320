"""``pgtrickle validate``: whether a query could be maintained, without creating anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import validation_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.query_text import read_query

if TYPE_CHECKING:  # takes longer to import than --help should
    from pgtrickle.service.lifecycle.validate import Validation


def validate(
    ctx: typer.Context,
    query: Annotated[
        str | None,
        typer.Argument(metavar="[SQL|-]", help="The query; a dash reads it from standard input."),
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="File that holds the query.", exists=True, dir_okay=False
        ),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Tell whether a query could be maintained incrementally; exit 1 and say why if not.

    Nothing is created.
    """
    text = read_query(query, file)
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        validation = trickle.validate_query(text)
        if as_json:
            print_json(validation_document(validation))
        else:
            stdout().print("\n".join(_describe(validation)), markup=False)
        if not validation.differential:
            raise typer.Exit(1)


def _describe(validation: Validation) -> Iterator[str]:
    yield _verdict(validation)
    for reason in validation.reasons:
        yield f"{reason.code}: {reason}"
        yield from (f"  {line}" for line in reason.detail.splitlines())
        yield f"  hint: {reason.hint}"
    if validation.columns:
        yield "columns:"
        yield from (f"  {column.name} {column.type.display}" for column in validation.columns)
    if validation.sources:
        yield "sources:"
    for source in validation.sources:
        yield f"  {source.name} ({', '.join(source.columns)})"
    if validation.explanation is None or not validation.usable:
        return
    yield "stages:"
    for stage in validation.explanation.stages:
        yield f"  {stage.name}: {stage.delta}"
        yield from (f"    state: {table.name}: {table.holds}" for table in stage.state)
        for read in stage.reads:
            if read.why_unbounded is not None:
                yield f"    unbounded read of {read.source}: {read.why_unbounded}"
    for statement in validation.explanation.missing_indexes:
        yield f"missing index: {statement}"


def _verdict(validation: Validation) -> str:
    if validation.differential:
        return "differential: yes"
    if validation.usable:
        return "differential: no; AUTO would recompute it in full"
    return "differential: no; it cannot be a stream table"
