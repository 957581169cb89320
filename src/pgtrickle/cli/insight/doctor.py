"""``pgtrickle doctor``: check everything a refresh needs, and say what to do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from pgtrickle.cli.connect import check_dsn, tell_where
from pgtrickle.cli.documents import check_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.setup import Setup

if TYPE_CHECKING:  # psycopg and what lies above it are not needed for --help
    from pgtrickle.service.insight.checkup.check import Check
    from pgtrickle.service.insight.index_advice import IndexAdvice

_NAMED = 3  # stream tables by name; of more, the number


def doctor(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Check Java, Spark, PostgreSQL, privileges and versions; exit 1 if a check fails.

    Also names the indexes without which a small change makes a refresh scan a large table.
    """
    from pgtrickle.bootstrap import diagnose  # noqa: PLC0415 - takes longer than --help should

    with errors_as_exit_codes(ctx, as_json=as_json):
        check_dsn(dsn)
        tell_where(ctx, dsn)
        with working("Checking"):
            checks = diagnose(dsn, ctx.ensure_object(Setup).connect)
        healthy = all(check.ok for check in checks)
        if as_json:
            missing = [advice for check in checks for advice in check.missing_indexes]
            print_json(
                {
                    "ok": healthy,
                    "checks": [check_document(check) for check in checks],
                    "missing_indexes": [asdict(advice) for advice in missing],
                }
            )
        else:
            console = stdout()
            for check in checks:
                console.print(_mark(check) + Text(f" {check.name}: {check.detail}"))
                if check.hint:
                    console.print(Text(f"       hint: {check.hint}"), soft_wrap=True)
                for advice in check.missing_indexes:
                    console.print(Text(f"       {advice.statement}"), soft_wrap=True)
                    console.print(Text(f"         -- {_reason(advice)}"), soft_wrap=True)
        if not healthy:
            raise typer.Exit(1)


def _mark(check: Check) -> Text:
    if not check.ok:
        return Text("FAILED", "bold red")
    if check.warning:
        return Text("warns ", "yellow")
    return Text("advice", "yellow") if check.missing_indexes else Text("ok    ", "green")


def _reason(advice: IndexAdvice) -> str:
    named = ", ".join(advice.stream_tables[:_NAMED])
    more = len(advice.stream_tables) - _NAMED
    others = f" and {more} more" if more > 0 else ""
    size = "not analyzed" if advice.rows is None else f"about {advice.rows:,} rows"
    return f"{advice.table}, {size}; for {named}{others}"
