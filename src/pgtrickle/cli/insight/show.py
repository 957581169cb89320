"""``pgtrickle show NAME``: one stream table in full."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import refresh_document, stream_table_document
from pgtrickle.cli.insight.history import refresh_listing
from pgtrickle.cli.moments import ago
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout
from pgtrickle.cli.stream_tables.runs_as import mode_in_effect
from pgtrickle.model.frontier import NEVER
from pgtrickle.model.lake.past_rows import PastRows
from pgtrickle.model.report import SourceRead
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.json_values import json_value

if TYPE_CHECKING:  # the catalog takes longer to import than --help should
    from pgtrickle.catalog.refreshes.history import Refresh

_REFRESHES = 5


def show(
    ctx: typer.Context,
    name: Name,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="Show rows instead, as the copy in the lake had them: the number of a snapshot of"
            " the lake, or a moment as 2026-01-31 12:00 (UTC unless it names a zone).",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="With --as-of: the columns to show; default: all."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="With --as-of: how many rows.")
    ] = 100,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show a stream table: its definition, mode, status, frontier and last refreshes."""
    if columns is not None and as_of is None:
        raise typer.BadParameter("goes with --as-of", param_hint="--columns")
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        if as_of is not None:
            chosen = None if columns is None else [one.strip() for one in columns.split(",")]
            past = trickle.lake.show_as_of(name, as_of, chosen, limit)
            if as_json:
                print_json(past.to_json())
            else:
                _print_rows(past)
            return
        table = trickle.get_stream_table(name)
        refreshes = trickle.refresh_history(name, limit=_REFRESHES)
        if as_json:
            documents = [refresh_document(refresh) for refresh in refreshes]
            totals = [asdict(total) for total in total_reads(refreshes)]
            print_json(stream_table_document(table) | {"refreshes": documents, "reads": totals})
            return
        _print(table, refreshes)


def _print_rows(past: PastRows) -> None:
    shown = plain_table(*past.columns)
    for row in past.rows:
        shown.add_row(*(_cell(row[name]) for name in past.columns))
    console = stdout()
    console.print(shown)
    more = "" if past.complete else "; there are more"
    console.print(
        Text(
            f"{past.stream_table} as of snapshot {past.snapshot_id} of the lake,"
            f" {past.snapshot_time}: {len(past.rows)} rows{more}"
        )
    )


def _cell(value: object) -> str:
    plain = json_value(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _print(table: StreamTable, refreshes: list[Refresh]) -> None:
    console = stdout()
    console.print(Text(str(table.name), style="bold"))
    for label, value in _facts(table):
        console.print(Text(f"  {label:<10} {value}"))
    console.print()
    console.print(Text(table.original_query.strip()))
    if not refreshes:
        return
    console.print()
    console.print(refresh_listing(refreshes))
    for refresh in refreshes:
        for read in refresh.reads:
            console.print(Text(f"  refresh {refresh.id} read {_describe(read)}"))
    for total in total_reads(refreshes):
        console.print(
            Text(
                f"  together {total.source} ({total.kind}): {_count(total.rows)} rows,"
                f" {total.bytes} bytes in {total.reads} reads"
            )
        )


@dataclass(frozen=True, slots=True)
class ReadTotal:
    """The rows that several refreshes read of one source in one way."""

    source: str
    kind: str
    reads: int
    rows: int | None  # None where one of the reads was not counted
    bytes: int


def total_reads(refreshes: Iterable[Refresh]) -> list[ReadTotal]:
    """Add up what refreshes have read, by source and kind of read."""
    grouped: dict[tuple[str, str], list[SourceRead]] = {}
    for refresh in refreshes:
        for read in refresh.reads:
            grouped.setdefault((read.source, read.kind), []).append(read)
    return [
        ReadTotal(
            source,
            kind,
            len(reads),
            None if any(read.rows < 0 for read in reads) else sum(read.rows for read in reads),
            sum(read.bytes for read in reads),
        )
        for (source, kind), reads in sorted(grouped.items())
    ]


def _count(rows: int | None) -> str:
    return "uncounted" if rows is None else str(rows)


def _describe(read: SourceRead) -> str:
    bound = f", bounded by {read.bounded_by}" if read.bounded_by else ""
    return f"{read.source} ({read.kind}): {read.rows} rows, {read.bytes} bytes{bound}"


def _status(table: StreamTable) -> str:
    if table.suspended_by is None:
        return table.status.value
    return f"{table.status.value} because of {table.suspended_by}; tried again now and then"


def _facts(table: StreamTable) -> Iterator[tuple[str, str]]:
    yield "mode", table.refresh_mode.value
    yield "runs as", mode_in_effect(table)
    yield "status", _status(table)
    yield "schedule", table.schedule
    if table.max_delta_fraction is not None:
        yield "limit", f"recomputed in full above {table.max_delta_fraction:.0%} changed rows"
    if table.cdc_mode is not None:
        yield "capture", table.cdc_mode.value
    if table.engine is not None:
        yield "engine", table.engine.value
    yield "owner", table.owner
    yield "frontier", "none" if table.frontier is None else str(table.frontier.snapshot)
    for one in () if table.frontier is None else table.frontier.positions:
        yield "lake", f"{one.source} as of snapshot {one.at}"
    if table.follows_time:
        yield "time", _of_time(table)
    yield "refreshed", ago(table.last_refresh_at)
    if table.needs_reinit:
        yield "next", "is rebuilt by the next refresh"
    if table.last_error_message:
        yield "last error", table.last_error_message


def _of_time(table: StreamTable) -> str:
    """Say for which time the contents hold, and when they next change by themselves."""
    if table.frontier is None or table.frontier.time is None:
        return ""
    following = table.next_change_at
    if following is None:
        told = "the next change by time alone is not known"
    elif following >= NEVER:
        told = "no row changes by time alone"
    else:
        told = f"a row changes by time alone at {following:%Y-%m-%d %H:%M:%S %Z}"
    return f"contents at {table.frontier.time.at:%Y-%m-%d %H:%M:%S %Z}; {told}"
