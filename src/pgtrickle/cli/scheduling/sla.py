"""``pgtrickle sla``: promise how old contents become at most, and see whether it is kept."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json, Name
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout

sla = typer.Typer(no_args_is_help=True, help="Promise how old contents become at most.")


@sla.command("list")
def list_(
    ctx: typer.Context,
    hours: Annotated[
        float | None,
        typer.Option(
            help="The hours to look back; without them, the setting sla_window_hours decides.",
            show_default=False,
        ),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the times of refreshes, the age of contents and what is left of error budgets."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        found = trickle.insight.sla_summary(hours)
        if as_json:
            print_json({"service_levels": [values_document(one) for one in found]})
            return
        if not found:
            stdout().print("no stream tables")
            return
        numbers = ("promised", "age", "missed", "p50", "p99", "refreshes", "failed", "budget left")
        listing = plain_table("stream table", *numbers, right=numbers)
        for one in found:
            listing.add_row(
                one.stream_table,
                _seconds(one.sla_s),
                _seconds(one.freshness_lag_s),
                _seconds(one.breach_s),
                "" if one.p50_ms is None else f"{one.p50_ms:,.0f} ms",
                "" if one.p99_ms is None else f"{one.p99_ms:,.0f} ms",
                f"{one.refreshes:,}",
                _share(one.error_rate),
                _share(one.error_budget_remaining),
            )
        stdout().print(listing)


@sla.command("set")
def set_(
    ctx: typer.Context,
    name: Name,
    sla: Annotated[str, typer.Argument(help="The age not to exceed, such as 30s, 5m or 1h30m.")],
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Promise an age that the contents do not exceed; tier and schedule are chosen by it."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        agreed = trickle.scheduler.set_stream_table_sla(name, sla)
        if as_json:
            print_json(values_document(agreed))
            return
        stdout().print(
            f"{agreed.stream_table}: at most {sla} old; tier {agreed.tier.value}, schedule"
            f" {agreed.schedule}",
            markup=False,
        )


@sla.command()
def clear(ctx: typer.Context, name: Name, dsn: Dsn = None, as_json: Json = False) -> None:
    """Take a service level away; tier and schedule stay as they are."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        agreed = trickle.scheduler.set_stream_table_sla(name, None)
        if as_json:
            print_json(values_document(agreed))
        else:
            stdout().print(f"{agreed.stream_table}: nothing is promised", markup=False)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f} s"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
