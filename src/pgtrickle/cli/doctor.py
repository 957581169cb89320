"""``pgtrickle doctor``: check everything a refresh needs, and say what to do."""

from __future__ import annotations

import typer
from rich.text import Text

from pgtrickle.cli.documents import check_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout, working
from pgtrickle.cli.session import check_dsn
from pgtrickle.cli.setup import Setup


def doctor(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Check Java, Spark, PostgreSQL, privileges and versions; exit 1 if a check fails."""
    from pgtrickle.bootstrap import diagnose  # noqa: PLC0415 - takes longer than --help should

    with errors_as_exit_codes(ctx, as_json=as_json):
        check_dsn(dsn)
        with working("Checking"):
            checks = diagnose(dsn, ctx.ensure_object(Setup).connect)
        healthy = all(check.ok for check in checks)
        if as_json:
            print_json({"ok": healthy, "checks": [check_document(check) for check in checks]})
        else:
            console = stdout()
            for check in checks:
                mark = Text("ok    ", "green") if check.ok else Text("FAILED", "bold red")
                console.print(mark + Text(f" {check.name}: {check.detail}"))
                if check.hint and not check.ok:
                    console.print(Text(f"       hint: {check.hint}"))
        if not healthy:
            raise typer.Exit(1)
