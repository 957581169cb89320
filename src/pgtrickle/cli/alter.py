"""``pgtrickle alter NAME``: change how a stream table is maintained, or its query."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from pgtrickle.cli.documents import stream_table_document
from pgtrickle.cli.options import (
    CapturedBy,
    Consistency,
    Dsn,
    Json,
    LakePartition,
    LakeTable,
    Name,
    SchedulePolicy,
    SinkPath,
)
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.progress import showing_progress
from pgtrickle.cli.query_text import read_query
from pgtrickle.cli.session import connected
from pgtrickle.model.delta_fraction import DEFAULT, Fraction
from pgtrickle.model.stream_table import RefreshMode
from pgtrickle.model.tier import Tier


class WantedStatus(Enum):
    """The statuses a person can give; the others are pgtrickle's own to give."""

    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"


def _fraction(text: str | None) -> Fraction | None:
    if text is None or text == DEFAULT:
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter('give a share between 0 and 1, or "default"') from None


def alter(
    ctx: typer.Context,
    name: Name,
    *,
    query: Annotated[
        str | None,
        typer.Option(
            "--query",
            "-q",
            metavar="SQL",
            help="Another query, whose rows replace the contents at once; - reads standard input.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="File that holds another query.", exists=True, dir_okay=False
        ),
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="How often to refresh: 30s, 5m, 1h30m, cron or calculated.")
    ] = None,
    refresh_mode: Annotated[
        RefreshMode | None, typer.Option(case_sensitive=False, help="How to maintain it.")
    ] = None,
    status: Annotated[
        WantedStatus | None,
        typer.Option(case_sensitive=False, help="SUSPENDED stops refreshes, ACTIVE resumes them."),
    ] = None,
    max_delta_fraction: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Share of changed rows, 0 to 1, above which AUTO recomputes in full; or default.",
        ),
    ] = None,
    cdc_mode: CapturedBy = None,
    tier: Annotated[
        Tier | None,
        typer.Option(case_sensitive=False, help="How much it matters: a factor on its schedule."),
    ] = None,
    diamond_consistency: Consistency = None,
    diamond_schedule_policy: SchedulePolicy = None,
    sink: Annotated[
        str | None,
        typer.Option(metavar="SINK", help="Copy it into a lake: ducklake; or no more: none."),
    ] = None,
    ducklake_sink_path: SinkPath = None,
    ducklake_table: LakeTable = None,
    ducklake_partition_by: LakePartition = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Change the query, schedule, mode, status, cost limit, capture or sink of a stream table."""
    diamond = (diamond_consistency, diamond_schedule_policy)
    text = None if query is None and file is None else read_query(query, file)
    given = (
        text,
        schedule,
        refresh_mode,
        status,
        max_delta_fraction,
        cdc_mode,
        tier,
        *diamond,
        sink,
    )
    if all(one is None for one in given):
        raise typer.BadParameter(
            "say what to change: --query, --file, --schedule, --refresh-mode, --status,"
            " --max-delta-fraction, --cdc-mode, --tier, --diamond-consistency,"
            " --diamond-schedule-policy or --sink"
        )
    fraction = _fraction(max_delta_fraction)
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with showing_progress(trickle, f"Altering {name}"):
            table = trickle.alter_stream_table(
                name,
                query=text,
                schedule=schedule,
                refresh_mode=None if refresh_mode is None else refresh_mode.value,
                status=None if status is None else status.value,
                max_delta_fraction=fraction,
                cdc_mode=None if cdc_mode is None else cdc_mode.value,
                tier=None if tier is None else tier.value,
                diamond_consistency=diamond_consistency and diamond_consistency.value,
                diamond_schedule_policy=(diamond_schedule_policy and diamond_schedule_policy.value),
                sink=sink,
                ducklake_sink_path=ducklake_sink_path,
                ducklake_table=ducklake_table,
                ducklake_partition_by=ducklake_partition_by,
            )
        if as_json:
            print_json(stream_table_document(table))
            return
        stdout().print(
            f"{table.name}: {table.status.value}, schedule {table.schedule},"
            f" mode {table.refresh_mode.value}, runs as {table.effective_refresh_mode.value}",
            markup=False,
        )
