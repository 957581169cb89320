"""``pgtrickle verify NAME``: compare a stream table with PostgreSQL's own answer."""

from __future__ import annotations

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import verify_document
from pgtrickle.cli.options import Dsn, Json, Local, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.progress import showing_progress
from pgtrickle.cli.waiting import Wait, when_free
from pgtrickle.model.report import VerifyReport


def verify(
    ctx: typer.Context,
    name: Name,
    wait: Wait = True,
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Compare a stream table with PostgreSQL's own answer to its query; exit 1 if they differ."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        with showing_progress(trickle, f"Verifying {name}"):
            report = when_free(trickle, name, lambda: trickle.verify_stream_table(name), wait=wait)
        if as_json:
            print_json(verify_document(report))
        else:
            stdout().print("\n".join(_describe(report)), markup=False)
        if not report.ok:
            raise typer.Exit(1)


def _describe(report: VerifyReport) -> list[str]:
    if report.ok:
        return [f"{report.stream_table}: {report.rows} rows, equal to PostgreSQL's own answer"]
    return [
        f"{report.stream_table}: differs: {report.missing} rows missing, {report.extra} extra",
        *(f"  missing: {' | '.join(row)}" for row in report.missing_sample),
        *(f"  extra:   {' | '.join(row)}" for row in report.extra_sample),
    ]
