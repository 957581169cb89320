"""The ``pgtrickle`` command; its subcommands are listed in ``on_demand.py``."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from pgtrickle.cli.on_demand import CommandGroup
from pgtrickle.cli.setup import Setup

# Tracebacks are ours to print, and Typer's would show local variables, connection strings too.
app = typer.Typer(
    name="pgtrickle",
    cls=CommandGroup,
    help="Stream tables for PostgreSQL, maintained incrementally on Apache Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from pgtrickle.cli.system.version import print_version  # noqa: PLC0415 - rarely asked for

        print_version()
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=lambda wanted: _print_version(wanted=wanted),
            help="Print the version and exit.",
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="PGTRICKLE_DEBUG", help="Show tracebacks of errors.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            envvar="PGTRICKLE_QUIET",
            help="Print no notices about the private server and unknown settings.",
        ),
    ] = False,
) -> None:
    """Stream tables for PostgreSQL, maintained incrementally on Apache Spark."""
    setup = ctx.ensure_object(Setup)
    setup.debug, setup.quiet = debug, quiet
    # Without a handler Python would print warnings of libraries between our own lines.
    logging.getLogger().addHandler(logging.NullHandler())
