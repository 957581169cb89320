"""``pgtrickle health``: what is checked of all stream tables, and what is wrong."""

from __future__ import annotations

import typer
from rich.text import Text

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import health_document
from pgtrickle.cli.insight.status import EXIT_CODES, STYLES
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.model.status_report import Severity, worst
from pgtrickle.model.text.printable import printable_line


def health(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Run the health checks over all stream tables and show the problems.

    The exit code is that of status: 0 all is well, 3 a warning, 4 critical, 1 an error.
    """
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        checks = trickle.health_check()
        severity = worst(checks)
        if as_json:
            print_json(health_document(checks))
        for check in () if as_json else checks:
            mark = Text(f"{check.severity.value:<8}", STYLES[check.severity])
            detail = f": {check.detail}" if check.detail else ""
            stdout().print(mark + Text(printable_line(f" {check.check_name}{detail}")))
            if check.command is not None:
                stdout().print(Text(printable_line(f"         run: {check.command}")))
        if severity is not Severity.OK:
            raise typer.Exit(EXIT_CODES[severity])
