"""``pgtrickle lake``: attach tables of the lake, and keep it tidy."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import care_document, source_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.waiting import Wait
from pgtrickle.model.lake.sink import LakeCare
from pgtrickle.model.lake.source import CompactionPolicy, LakeSource
from pgtrickle.model.scheduling.schedule import parse_duration
from pgtrickle.settings import CATALOG_SCHEMA

lake = typer.Typer(
    no_args_is_help=True,
    help="Show and move the lake's catalog, attach lake tables, and maintain files.",
)

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
        help="Expire snapshots older than this in the whole catalog; default: none.",
    ),
]


@lake.callback()
def main() -> None:
    """Show and move the lake's catalog, attach lake tables, and maintain files."""


Landing = Annotated[
    str, typer.Argument(metavar="NAME", help="The name by which queries read it, as schema.name.")
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
        typer.Option(
            metavar="SCHEMA", help="Schema of the lake's catalog; default: ducklake_catalog_schema."
        ),
    ] = None,
    policy: Annotated[
        CompactionPolicy | None,
        typer.Option(
            "--compaction-policy",
            help="If the snapshot read last has expired in the lake: compare all rows, or fail.",
        ),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Attach a lake table as a source; PostgreSQL keeps a copy of its rows."""
    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn, new_server=True) as trickle,
    ):
        with working(f"Reading {lake_table}"):
            found = trickle.lake.attach_ducklake_table(
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
def show(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show where the catalog of the lake is, and the line with which DuckDB attaches it."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.lake.ducklake_catalogs()
        if as_json:
            print_json({"catalogs": [asdict(one) for one in found]})
            return
        for one in found:
            stdout().print(
                f'schema "{one.catalog_schema}": {one.sinks} sinks, {one.sources} attached tables,'
                f" files below {one.data_path or '?'}\n  {one.attach}",
                markup=False,
                soft_wrap=True,
            )
        if not found:
            stdout().print("there is no lake yet", markup=False)


@lake.command()
def move(
    ctx: typer.Context,
    to_schema: Annotated[
        str,
        typer.Option(
            "--to", metavar="SCHEMA", help="The new schema; created if it does not exist."
        ),
    ] = CATALOG_SCHEMA,
    from_schema: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="SCHEMA", help="The present schema; found by itself if left out."
        ),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Move the tables of the lake's catalog to another schema, with everything that names them.

    Clients must attach again, with the printed line. Waits for running readers and writers.
    """
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working("Moving the catalog"):
            found = trickle.lake.move_ducklake_catalog(to_schema, from_schema)
        if as_json:
            print_json(asdict(found))
            return
        what = (
            f"{found.tables} tables moved from {found.from_schema} to {found.to_schema}; "
            f"{found.sinks} sinks and {found.sources} attached tables follow"
            if found.from_schema != found.to_schema
            else f"the catalog is in {found.to_schema} already"
        )
        stdout().print(f"{what}\n  {found.attach}", markup=False, soft_wrap=True)


@lake.command()
def detach(ctx: typer.Context, name: Landing, dsn: Dsn = None, as_json: Json = False) -> None:
    """Detach a lake table, and drop the copy of its rows."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.lake.detach_ducklake_table(name)
        if as_json:
            print_json({"detached": str(found.landing)})
        else:
            stdout().print(f"{found.landing}: detached", markup=False)


@lake.command("list")
def list_attached(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show the attached lake tables, and the snapshot that each was read to."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.lake.ducklake_sources()
        if as_json:
            print_json({"sources": [source_document(one) for one in found]})
            return
        for one in found:
            stdout().print(_line(one), markup=False)
        if not found:
            stdout().print("no attached lake tables", markup=False)


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
    wait: Wait = True,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Merge small files and remove unused ones; exit 1 if a sink cannot be maintained.

    Refreshes of the stream table wait meanwhile; readers do not.
    """
    from pgtrickle.client.commands import request_timeout  # noqa: PLC0415 - takes longer than --help should

    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        age = parse_duration(older_than)
        kept = None if keep is None else parse_duration(keep)
        with working("Tending the lake"):
            seconds = (request_timeout(trickle) or math.inf) if wait else 0.0
            found = trickle.lake.maintain_lake(age, kept, wait_seconds=seconds)
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
