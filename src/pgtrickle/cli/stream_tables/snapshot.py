"""``pgtrickle snapshot``: save the contents of stream tables, and restore them."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import (
    report_document,
    row_text,
    snapshot_diff_document,
    values_document,
)
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.waiting import Wait, when_free
from pgtrickle.model.table_snapshot import ListedSnapshot, RowChange
from pgtrickle.model.text.printable import printable_line

snapshot = typer.Typer(
    no_args_is_help=True,
    help="Take, list, compare and drop snapshots of stream tables, and restore them.",
)

Table = Annotated[
    str, typer.Argument(metavar="SNAPSHOT", help="Table of the snapshot, as schema.name.")
]


@snapshot.callback()
def main() -> None:
    """Take, list, compare and drop snapshots of stream tables, and restore them."""


@snapshot.command()
def create(
    ctx: typer.Context,
    name: Name,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[SNAPSHOT]",
            help="Table to create; default: snapshot_<name>_<milliseconds> in the same schema.",
        ),
    ] = None,
    to_lake: Annotated[
        bool,
        typer.Option("--to-lake", help="Let the copy in the lake keep the rows; no table is made."),
    ] = False,
    wait: Wait = True,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Copy the rows and the state of a stream table, at one frontier."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:

        def take() -> str:
            return str(trickle.snapshots.snapshot_stream_table(name, target, to_lake=to_lake))

        with working(f"Copying {name}"):
            taken = when_free(trickle, name, take, wait=wait)
        if as_json:
            print_json({"snapshot": taken})
        else:
            stdout().print(f"{taken}: taken", markup=False)


@snapshot.command()
def restore(
    ctx: typer.Context,
    name: Name,
    source: Table,
    wait: Wait = True,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Give a stream table the rows of a snapshot; the next refresh continues from there."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working(f"Restoring {name}"):
            report = when_free(
                trickle,
                name,
                lambda: trickle.snapshots.restore_from_snapshot(name, source),
                wait=wait,
            )
        if as_json:
            print_json(report_document(report))
        else:
            stdout().print(
                f"{report.stream_table}: {report.reason}: +{report.rows_inserted}"
                f" -{report.rows_deleted} rows",
                markup=False,
            )


@snapshot.command("list")
def list_taken(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Stream table, as schema.name; default: all.")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show snapshots, the oldest first, and how the refresh after a restore works."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.snapshots.list_snapshots(name)
        if as_json:
            print_json({"snapshots": [values_document(one) for one in found]})
            return
        for one in found:
            stdout().print(_line(one), markup=False, soft_wrap=True)
        if not found:
            stdout().print("no snapshots", markup=False)


def _line(one: ListedSnapshot) -> str:
    after = "the refresh after a restore continues"
    if one.gap is not None:
        after = "the refresh after a restore reinitializes" if one.restorable else "not restorable"
        after = f"{after}: {printable_line(one.gap)}"
    lake = ""
    if one.lake_table is not None:
        lake = f" in version {one.lake_snapshot} of the lake table {one.lake_table},"
    return printable_line(
        f"{one.table} of {one.stream_table}: {one.row_count} rows of {one.data_timestamp},{lake}"
        f" {one.size_bytes} bytes; {after}"
    )


@snapshot.command()
def diff(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="Table of the earlier snapshot.")],
    b: Annotated[
        str | None,
        typer.Argument(
            metavar="[B]", help="Table of the later snapshot; default: the present rows."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many different rows.")] = 100,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the rows that were added and removed between two snapshots of a stream table."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working(f"Comparing {a}"):
            found = trickle.snapshots.diff_snapshots(a, b, limit)
        if as_json:
            print_json(snapshot_diff_document(found))
            return
        for one in found.changes:
            stdout().print(_change_line(one), markup=False, soft_wrap=True)
        shown = "" if found.complete else f"; the first {len(found.changes)} are shown"
        stdout().print(
            printable_line(
                f"from {found.before} to {found.after or 'the present rows'}:"
                f" +{found.rows_added} -{found.rows_removed} rows{shown}"
            ),
            markup=False,
            soft_wrap=True,
        )


def _change_line(one: RowChange) -> str:
    sign = "+" if one.change == "added" else "-"
    copies = "" if one.copies == 1 else f" ({one.copies} times)"
    return printable_line(f"{sign} {row_text(one.row)}{copies}")


@snapshot.command()
def drop(ctx: typer.Context, table: Table, dsn: Dsn = None, as_json: Json = False) -> None:
    """Drop a snapshot and its table."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        dropped = str(trickle.snapshots.drop_snapshot(table))
        if as_json:
            print_json({"dropped": dropped})
        else:
            stdout().print(f"{dropped}: dropped", markup=False)
