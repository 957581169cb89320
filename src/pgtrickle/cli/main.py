"""The ``pgtrickle`` command: every subcommand in one list, in the order help shows them."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from pgtrickle.cli.alter import alter
from pgtrickle.cli.cdc import cdc
from pgtrickle.cli.config import config
from pgtrickle.cli.create import create
from pgtrickle.cli.demo import demo
from pgtrickle.cli.doctor import doctor
from pgtrickle.cli.drop import drop
from pgtrickle.cli.errors import errors
from pgtrickle.cli.explain import explain
from pgtrickle.cli.fuse import fuse
from pgtrickle.cli.gate import gate
from pgtrickle.cli.group import group
from pgtrickle.cli.history import history
from pgtrickle.cli.init import init
from pgtrickle.cli.lake import lake
from pgtrickle.cli.list import list_stream_tables
from pgtrickle.cli.refresh import refresh
from pgtrickle.cli.repair import repair
from pgtrickle.cli.run import run
from pgtrickle.cli.scheduler import scheduler
from pgtrickle.cli.setup import Setup
from pgtrickle.cli.show import show
from pgtrickle.cli.sink import sink
from pgtrickle.cli.validate import validate
from pgtrickle.cli.verify import verify
from pgtrickle.cli.version import version
from pgtrickle.cli.watermark import watermark

# Tracebacks are ours to print, and Typer's would show local variables, connection strings too.
app = typer.Typer(
    name="pgtrickle",
    help="Stream tables for PostgreSQL, maintained incrementally on Apache Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(init)
app.command()(create)
app.command()(validate)
app.command()(refresh)
app.command()(verify)
app.command()(explain)
app.command("list")(list_stream_tables)
app.command()(show)
app.command()(history)
app.command()(errors)
app.command()(alter)
app.command()(repair)
app.command()(drop)
app.command()(run)
app.add_typer(scheduler, name="scheduler")
app.add_typer(gate, name="gate")
app.add_typer(watermark, name="watermark")
app.add_typer(fuse, name="fuse")
app.add_typer(group, name="group")
app.add_typer(cdc, name="cdc")
app.command()(config)
app.add_typer(sink, name="sink")
app.add_typer(lake, name="lake")
app.command()(demo)
app.command()(doctor)
app.command()(version)


@app.callback()
def main(
    ctx: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="PGTRICKLE_DEBUG", help="Show tracebacks of errors.")
    ] = False,
) -> None:
    """Stream tables for PostgreSQL, maintained incrementally on Apache Spark."""
    ctx.ensure_object(Setup).debug = debug
    # Without a handler Python would print warnings of libraries between our own lines.
    logging.getLogger().addHandler(logging.NullHandler())
