"""``pgtrickle lake``: keep the lake tidy."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.documents import care_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.session import connected
from pgtrickle.model.lake_sink import LakeCare
from pgtrickle.model.schedule import parse_duration

lake = typer.Typer(no_args_is_help=True, help="Keep the lake tidy.")

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
    """Keep the lake tidy."""


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
