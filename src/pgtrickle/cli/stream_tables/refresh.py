"""``pgtrickle refresh NAME | --all``: bring stream tables up to date now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import Document, error_document, report_document
from pgtrickle.cli.options import Dsn, Json, Local
from pgtrickle.cli.output import errors_as_exit_codes, print_error, print_json, stdout
from pgtrickle.cli.progress import showing_progress
from pgtrickle.cli.waiting import Wait, when_free
from pgtrickle.errors import TrickleError
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, Status
from pgtrickle.scheduler.order import in_dependency_order

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle


def refresh(
    ctx: typer.Context,
    *,
    name: Annotated[
        str | None, typer.Argument(help="Stream table, as schema.name.", show_default=False)
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Refresh all, each after those that it reads.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Recompute from scratch.")] = False,
    wait: Wait = True,
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Refresh a stream table, or all, and print how many rows changed.

    With --all, suspended stream tables are left out and a failure does not stop the others.
    """
    if (name is None) is not every:
        raise typer.BadParameter("give the name of a stream table, or --all")
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        if name is None:
            _refresh_all(trickle, full=full, wait=wait, as_json=as_json)
            return
        report = _refresh(trickle, name, full=full, wait=wait)
        if as_json:
            print_json(report_document(report))
        else:
            stdout().print(describe(report), markup=False)


def describe(report: RefreshReport) -> str:
    """Say in one line what a refresh did.

    >>> describe(RefreshReport("public.t", 1, Action.DIFFERENTIAL, "12 changes", 12, 3, 840.0))
    'public.t: DIFFERENTIAL +12 -3 in 0.84 s (12 changes)'
    """
    rows = f" +{report.rows_inserted} -{report.rows_deleted}"
    return (
        f"{report.stream_table}: {report.action.value}"
        f"{'' if report.action in (Action.NO_DATA, Action.SKIPPED) else rows}"
        f" in {report.duration_ms / 1000:.2f} s{f' ({report.reason})' if report.reason else ''}"
    )


def _refresh(trickle: Trickle, name: str, *, full: bool, wait: bool) -> RefreshReport:
    def act() -> RefreshReport:
        return trickle.refresh_stream_table(name, full=full)

    with showing_progress(trickle, f"Refreshing {name}"):
        return when_free(trickle, name, act, wait=wait)


def _refresh_all(trickle: Trickle, *, full: bool, wait: bool, as_json: bool) -> None:
    names = [
        str(table.name)
        for table in trickle.list_stream_tables()
        if table.status is not Status.SUSPENDED
    ]
    reports: list[Document] = []
    errors: list[Document] = []
    for name in in_dependency_order(names, trickle.insight.dependencies()):
        try:
            report = _refresh(trickle, name, full=full, wait=wait)
        except TrickleError as error:
            errors.append({"stream_table": name} | error_document(error))
            if not as_json:
                print_error(error, as_json=False)
        else:
            reports.append(report_document(report))
            if not as_json:
                stdout().print(describe(report), markup=False)
    if as_json:
        print_json({"refreshes": reports, "errors": errors})
    elif not names:
        stdout().print("no stream tables")
    if errors:
        raise typer.Exit(1)
