"""``pgtrickle alter NAME``: change how a stream table is maintained."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from pgtrickle.cli.documents import stream_table_document
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.session import connected
from pgtrickle.model.stream_table import RefreshMode


class WantedStatus(Enum):
    """The statuses a person can give; the others are pgtrickle's own to give."""

    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"


def alter(
    ctx: typer.Context,
    name: Name,
    *,
    schedule: Annotated[
        str | None, typer.Option(help="How often to refresh: 30s, 5m, 1h30m or calculated.")
    ] = None,
    refresh_mode: Annotated[
        RefreshMode | None, typer.Option(case_sensitive=False, help="How to maintain it.")
    ] = None,
    status: Annotated[
        WantedStatus | None,
        typer.Option(case_sensitive=False, help="SUSPENDED stops refreshes, ACTIVE resumes them."),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Change the schedule, the refresh mode or the status of a stream table."""
    if schedule is None and refresh_mode is None and status is None:
        raise typer.BadParameter("say what to change: --schedule, --refresh-mode or --status")
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with working(f"Altering {name}"):
            table = trickle.alter_stream_table(
                name,
                schedule=schedule,
                refresh_mode=None if refresh_mode is None else refresh_mode.value,
                status=None if status is None else status.value,
            )
        if as_json:
            print_json(stream_table_document(table))
            return
        stdout().print(
            f"{table.name}: {table.status.value}, schedule {table.schedule},"
            f" mode {table.refresh_mode.value}, runs as {table.effective_refresh_mode.value}",
            markup=False,
        )
