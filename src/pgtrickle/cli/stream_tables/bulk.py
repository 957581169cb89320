"""``pgtrickle bulk``: create, alter or drop several stream tables with one command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import stream_table_document
from pgtrickle.cli.options import Dsn, Json, Local
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.cli.progress import showing_progress
from pgtrickle.cli.query_text import decoded
from pgtrickle.cli.stream_table_options import taking_options
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.options.option import OptionVerb

bulk = typer.Typer(no_args_is_help=True, help="Create, alter or drop several stream tables.")

_STDIN = Path("-")
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Stream tables.")]


@bulk.command()
def create(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            help='File with a JSON list of definitions, such as [{"name": "t", "query":'
            ' "SELECT ..."}], with the options of create by name; - reads standard input.',
        ),
    ],
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Create several stream tables or, if one of them fails, none."""
    definitions = _read_definitions(file)
    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn, new_server=True, local=local) as trickle,
    ):
        with showing_progress(trickle, f"Creating {len(definitions)} stream tables"):
            made = trickle.bulk_create(definitions)
        _tell("created", made, as_json=as_json)


@bulk.command()
@taking_options(OptionVerb.ALTER)
def alter(
    ctx: typer.Context,
    names: Names,
    *,
    options: dict[str, Any],
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Change the same options of several stream tables."""
    if all(one is None for one in options.values()):
        flags = [f"--{name.replace('_', '-')}" for name in options]
        raise typer.BadParameter(f"say what to change: {', '.join(flags[:-1])} or {flags[-1]}")
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        with showing_progress(trickle, f"Altering {len(names)} stream tables"):
            altered = trickle.bulk_alter_stream_tables(names, **options)
        _tell("altered", altered, as_json=as_json)


@bulk.command()
def drop(
    ctx: typer.Context, names: Names, local: Local = False, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Drop several stream tables, in this order; their sources stay as they are."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=local) as trickle:
        dropped = trickle.bulk_drop_stream_tables(names)
        if as_json:
            print_json({"dropped": dropped})
        else:
            stdout().print("\n".join(f"{one}: dropped" for one in dropped), markup=False)


def _read_definitions(file: Path) -> list[Any]:
    try:
        content = sys.stdin.buffer.read() if file == _STDIN else file.read_bytes()
        found = json.loads(decoded(content, str(file)))
    except OSError as error:
        raise typer.BadParameter(f"cannot read {file}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"{file} is not JSON: {error}") from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise typer.BadParameter(f"{file} must hold a list of definitions, each an object")
    return found


def _tell(what: str, tables: list[StreamTable], *, as_json: bool) -> None:
    if as_json:
        print_json({what: [stream_table_document(one) for one in tables]})
        return
    for one in tables:
        stdout().print(f"{one.name}: {what}", markup=False)
