"""``pgtrickle create NAME``: define a stream table and fill it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pgtrickle.cli.documents import report_document, stream_table_document
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
from pgtrickle.cli.query_text import decoded
from pgtrickle.cli.refresh import describe
from pgtrickle.cli.session import connected
from pgtrickle.model.schedule import CALCULATED
from pgtrickle.model.stream_table import RefreshMode

_STDIN = "-"


def create(
    ctx: typer.Context,
    name: Name,
    *,
    source: Annotated[
        str | None,
        typer.Argument(metavar="[-]", help="A dash reads the query from standard input."),
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", metavar="SQL", help="The defining query.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="File that holds the query.", exists=True, dir_okay=False
        ),
    ] = None,
    schedule: Annotated[
        str, typer.Option(help="How often to refresh: 30s, 5m, 1h30m, cron or calculated.")
    ] = CALCULATED,
    refresh_mode: Annotated[
        RefreshMode, typer.Option(case_sensitive=False, help="How to maintain it.")
    ] = RefreshMode.AUTO,
    initialize: Annotated[
        bool, typer.Option("--initialize/--no-initialize", help="Fill it now.")
    ] = True,
    max_delta_fraction: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of changed rows above which AUTO recomputes in full."
        ),
    ] = None,
    cdc_mode: CapturedBy = None,
    diamond_consistency: Consistency = None,
    diamond_schedule_policy: SchedulePolicy = None,
    sink: Annotated[
        str | None, typer.Option(metavar="SINK", help="Copy it into a lake: ducklake.")
    ] = None,
    ducklake_sink_path: SinkPath = None,
    ducklake_table: LakeTable = None,
    ducklake_partition_by: LakePartition = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Create a stream table from a query and fill it."""
    text = _read_query(source, query, file)
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        with showing_progress(trickle, f"Creating {name}"):
            report = trickle.create_stream_table(
                name,
                text,
                schedule=schedule,
                refresh_mode=refresh_mode.value,
                initialize=initialize,
                max_delta_fraction=max_delta_fraction,
                cdc_mode=None if cdc_mode is None else cdc_mode.value,
                diamond_consistency=diamond_consistency and diamond_consistency.value,
                diamond_schedule_policy=(diamond_schedule_policy and diamond_schedule_policy.value),
                sink=sink,
                ducklake_sink_path=ducklake_sink_path,
                ducklake_table=ducklake_table,
                ducklake_partition_by=ducklake_partition_by,
            )
        table = trickle.get_stream_table(name)
        if as_json:
            refresh = None if report is None else report_document(report)
            print_json({"stream_table": stream_table_document(table), "refresh": refresh})
            return
        stdout().print(f"{table.name}: created", markup=False)
        if table.downgrade_reason:
            mode = table.effective_refresh_mode.value
            stdout().print(f"runs as {mode}: {table.downgrade_reason}", markup=False)
        if report is not None:
            stdout().print(describe(report), markup=False)


def _read_query(source: str | None, query: str | None, file: Path | None) -> str:
    if sum(given is not None for given in (source, query, file)) != 1:
        raise typer.BadParameter("give the query in one way: --query, --file or - for stdin")
    if query is not None:
        return query
    if file is not None:
        return decoded(file.read_bytes(), str(file))
    if source != _STDIN:
        raise typer.BadParameter("put --query before the SQL, or - to read standard input")
    return decoded(sys.stdin.buffer.read(), "standard input")
