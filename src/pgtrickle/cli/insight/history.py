"""``pgtrickle history [NAME]``: what the last refreshes did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import refresh_document
from pgtrickle.cli.moments import lasted
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout

if TYPE_CHECKING:  # the catalog takes longer to import than --help should
    from pgtrickle.catalog.refreshes.history import Refresh


def history(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Stream table; all if left out.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many refreshes.")] = 20,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the last refreshes, the newest first."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        refreshes = trickle.refresh_history(name, limit=limit)
        if as_json:
            print_json({"refreshes": [refresh_document(refresh) for refresh in refreshes]})
        elif refreshes:
            stdout().print(refresh_listing(refreshes))
        else:
            stdout().print("no refreshes")


def refresh_listing(refreshes: Iterable[Refresh]) -> Table:
    """Lay refreshes of the past out as a table."""
    listing = plain_table(
        "id", "started", "stream table", "action", "+", "-", "took", "predicted", "why",
        right=("id", "+", "-", "took", "predicted"),
    )  # fmt: skip
    for refresh in refreshes:
        failure = f"{refresh.error_code or 'error'}: {refresh.error_message}"
        listing.add_row(
            str(refresh.id),
            f"{refresh.start_time:%Y-%m-%d %H:%M:%S}",
            Text(str(refresh.stream_table)),
            refresh.action.value if refresh.action else refresh.status.value,
            str(refresh.rows_inserted),
            str(refresh.rows_deleted),
            lasted(refresh.start_time, refresh.end_time),
            "" if refresh.predicted_ms is None else f"{refresh.predicted_ms:,.0f} ms",
            Text(failure if refresh.error_message else refresh.reason),
        )
    return listing
