"""``pgtrickle lake``: attach tables of the lake, and keep it tidy."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.documents import care_document, source_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.session import connected
from pgtrickle.model.lake_sink import LakeCare
from pgtrickle.model.lake_source import CompactionPolicy, LakeSource
from pgtrickle.model.schedule import parse_duration

lake = typer.Typer(no_args_is_help=True, help="Attach tables of the lake, and keep it tidy.")

OlderThan = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="The age from which a file that no snapshot needs is removed; longer than any"
        " reader or writer takes.",
    ),
]


Keep = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Forget snapshots older than this, of the whole catalog; default: none.",
    ),
]


@lake.callback()
def main() -> None:
    """Attach tables of the lake, and keep it tidy."""


Landing = Annotated[
    str, typer.Argument(metavar="NAME", help="Under which name queries read it, as schema.name.")
]


@lake.command()
def attach(
    ctx: typer.Context,
    name: Landing,
    lake_table: Annotated[str, typer.Argument(help="Table of the lake, as schema.name.")],
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="The columns to follow; default: all of them."),
    ] = None,
    catalog_schema: Annotated[
        str | None,
        typer.Option(metavar="SCHEMA", help="Of the catalog; default: ducklake_catalog_schema."),
    ] = None,
    policy: Annotated[
        CompactionPolicy | None,
        typer.Option(
            "--compaction-policy",
            help="When the lake has forgotten the last snapshot: compare all rows, or fail.",
        ),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Follow a table of the lake, so that stream tables can read it; PostgreSQL holds its rows."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working(f"Reading {lake_table}"):
            found = trickle.attach_ducklake_table(
                name,
                lake_table,
                None if columns is None else [one.strip() for one in columns.split(",")],
                catalog_schema=catalog_schema,
                compaction_policy=None if policy is None else policy.value,
            )
        if as_json:
            print_json(source_document(found))
        else:
            stdout().print(_line(found), markup=False)


@lake.command()
def detach(ctx: typer.Context, name: Landing, dsn: Dsn = None, as_json: Json = False) -> None:
    """Follow a table of the lake no longer, and drop its rows here."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.detach_ducklake_table(name)
        if as_json:
            print_json({"detached": str(found.landing)})
        else:
            stdout().print(f"{found.landing}: detached", markup=False)


@lake.command("list")
def list_attached(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show every table of the lake that is followed, and up to which snapshot."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.ducklake_sources()
        if as_json:
            print_json([source_document(one) for one in found])
        for one in [] if as_json else found:
            stdout().print(_line(one), markup=False)


def _line(one: LakeSource) -> str:
    text = (
        f"{one.landing} <- {one.lake_table}: snapshot {one.snapshot_id},"
        f" {len(one.columns)} columns, {one.policy.value}"
    )
    return f"{text}\n  {one.last_error}" if one.last_error else text


@lake.command()
def maintain(
    ctx: typer.Context,
    older_than: OlderThan = "1d",
    keep: Keep = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Merge small files, remove those that nobody needs; exit 1 if a sink cannot be tended.

    Refreshes of the stream table wait meanwhile; readers do not.
    """
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        age = parse_duration(older_than)
        kept = None if keep is None else parse_duration(keep)
        with working("Tending the lake"):
            found = trickle.maintain_lake(age, kept)
        if as_json:
            print_json(care_document(found))
        else:
            _tell(found)
        if any(one.error for one in found.sinks):
            raise typer.Exit(1)


def _tell(care: LakeCare) -> None:
    for one in care.sinks:
        what = one.error or (
            f"{one.merged} files merged, {one.flushed} deletes flushed;"
            f" {len(one.orphans)} orphans and {len(one.replaced)} replaced files removed"
        )
        stdout().print(f"{one.stream_table}: {what}", markup=False)
    if care.expired:
        stdout().print(f"{care.expired} snapshots forgotten", markup=False)
