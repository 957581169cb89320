"""``pgtrickle version`` and ``pgtrickle --version``: which version this is."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import Document, error_document, values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, one_line, print_json, print_text, stderr
from pgtrickle.errors import TrickleError
from pgtrickle.model.text.passwords import hide_passwords
from pgtrickle.model.version import VERSION, spark_version

if TYPE_CHECKING:
    from pgtrickle.model.status_report import Versions


def version(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Print the version of pgtrickle, and with a database those of all that takes part in it.

    It does not fail because of a database that cannot be reached or used: it says why.
    """
    with errors_as_exit_codes(ctx, as_json=as_json):
        found = _ask(ctx, dsn)
    if as_json:
        here = {
            "pgtrickle": VERSION,
            "python": platform.python_version(),
            "spark": spark_version(),
        }
        print_json(here | ({"database": _document(found)} if found else {}))
        return
    print_version()
    if isinstance(found, TrickleError):
        stderr().print(f"the database: {hide_passwords(one_line(found))}", markup=False)
    elif found:
        print_text(str(found))


def print_version() -> None:
    """Print which version this is, in one line."""
    print(f"pgtrickle {VERSION}")


def _ask(ctx: typer.Context, dsn: str | None) -> Versions | TrickleError | None:
    """Return what the database says; None if none is named: no private server is started."""
    if not dsn:
        return None
    try:
        with connected(ctx, dsn) as trickle:
            return trickle.version()
    except TrickleError as error:
        return error


def _document(found: Versions | TrickleError) -> Document:
    return error_document(found) if isinstance(found, TrickleError) else values_document(found)
