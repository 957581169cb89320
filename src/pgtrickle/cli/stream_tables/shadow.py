"""``pgtrickle shadow``: follow a query that is loaded beside the old one, and decide on it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import report_document, row_text
from pgtrickle.cli.options import Dsn, Json, Local, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.progress import showing_progress
from pgtrickle.model.shadows.build import EvolutionStatus
from pgtrickle.model.shadows.difference import ShadowDiff
from pgtrickle.model.table_snapshot import RowChange
from pgtrickle.model.text.printable import printable_line

shadow = typer.Typer(
    no_args_is_help=True,
    help="Follow, compare, promote and cancel a new query that is loaded beside the old one.",
)


@shadow.callback()
def main() -> None:
    """Follow, compare, promote and cancel a new query that is loaded beside the old one."""


@shadow.command()
def status(ctx: typer.Context, name: Name, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show how far the latest shadow build of a stream table is, and why it ended."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.shadows.view_evolution_status(name)
        if as_json:
            print_json({"shadow_build": None if found is None else _document(found)})
        elif found is None:
            stdout().print("no shadow build", markup=False)
        else:
            stdout().print(_status_line(found), markup=False, soft_wrap=True)


def _document(found: EvolutionStatus) -> dict[str, object]:
    moments = ("started_at", "estimated_ready_at", "ended_at")
    texts = {one: getattr(found, one) for one in moments}
    return asdict(found) | {
        name: None if moment is None else moment.isoformat() for name, moment in texts.items()
    }


def _status_line(found: EvolutionStatus) -> str:
    parts = [f"{found.rows_loaded} rows", f"{found.refreshes} refreshes"]
    if found.lag_changes is not None:
        parts.append(f"{found.lag_changes} changes behind")
    if found.shadow_table_name is not None and found.hold:
        parts.append("held")
    if found.estimated_ready_at is not None and not found.converged:
        parts.append(f"ready at about {found.estimated_ready_at}")
    if found.last_error is not None:
        parts.append(found.last_error)
    return printable_line(f"{found.stream_table}: {found.state}: {', '.join(parts)}")


@shadow.command()
def compare(
    ctx: typer.Context,
    name: Name,
    limit: Annotated[int, typer.Option(min=0, max=100_000, help="How many different rows.")] = 100,
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show how the rows and columns of a stream table would change by its shadow."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        with working(f"Comparing {name}"):
            found = trickle.shadows.compare_shadow(name, limit)
        if as_json:
            from pgtrickle.service.requests.shadow_verbs import describe_difference  # noqa: PLC0415 - it takes long to import

            print_json(describe_difference(found))
            return
        for line in _difference_lines(found):
            stdout().print(printable_line(line), markup=False, soft_wrap=True)


def _difference_lines(found: ShadowDiff) -> list[str]:
    lines = [f"new column {one}" for one in found.columns_added]
    lines += [f"dropped column {one}" for one in found.columns_dropped]
    lines += [f"column {one}" for one in found.columns_retyped]
    lines += [_change_line(one) for one in found.changes]
    shown = "" if found.complete else f"; the first {len(found.changes)} are shown"
    at = "at one moment" if found.same_moment else "not at one moment"
    lines.append(
        f"{found.stream_table}: {found.rows} rows now, {found.shadow_rows} in the shadow:"
        f" +{found.rows_added} -{found.rows_removed}, {at}{shown}"
    )
    if found.note is not None:
        lines.append(f"not refreshed before: {found.note}")
    return lines


def _change_line(one: RowChange) -> str:
    sign = "+" if one.change == "added" else "-"
    copies = "" if one.copies == 1 else f" ({one.copies} times)"
    return f"{sign} {row_text(one.row)}{copies}"


@shadow.command()
def promote(
    ctx: typer.Context,
    name: Name,
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Bring a shadow up to date, and put its query in force."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        with showing_progress(trickle, f"Promoting the shadow of {name}"):
            report = trickle.shadows.promote_shadow(name)
        if as_json:
            print_json(report_document(report))
        else:
            stdout().print(
                f"{report.stream_table}: {report.reason}: +{report.rows_inserted}"
                f" -{report.rows_deleted} rows",
                markup=False,
            )


@shadow.command()
def cancel(
    ctx: typer.Context,
    name: Name,
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """End a shadow build; the stream table stays as it is."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        cancelled = str(trickle.shadows.cancel_shadow(name))
        if as_json:
            print_json({"cancelled": cancelled})
        else:
            stdout().print(f"{cancelled}: its shadow build was cancelled", markup=False)
