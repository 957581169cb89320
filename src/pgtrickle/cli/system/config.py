"""``pgtrickle config [NAME [VALUE]]``: which settings are in effect, and change them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout
from pgtrickle.errors import SettingError


def config(
    ctx: typer.Context,
    *,
    name: Annotated[
        str | None, typer.Argument(help="Setting; all if left out.", show_default=False)
    ] = None,
    value: Annotated[
        str | None, typer.Argument(help="Its value for this database.", show_default=False)
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Remove the value.")] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show settings with their values and where these come from, or change one.

    A value is kept in the database. Running processes follow within two seconds, except settings
    that need a restart: those are followed by processes that start later.
    """
    if reset and (name is None or value is not None):
        raise typer.BadParameter("--reset takes the name of a setting, and no value")
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        if name is not None and (value is not None or reset):
            trickle.set_setting(name, value)
        found = [one for one in trickle.list_settings() if name in (None, one.name)]
        if not found:
            raise SettingError(
                f'there is no setting "{name}"', hint="List them with: pgtrickle config."
            )
        if as_json:
            print_json({"settings": [asdict(one) for one in found]})
            return
        listing = plain_table("setting", "value", "from", "unit", "restart", "meaning")
        for one in found:
            restart = "needed" if one.needs_restart else ""
            shown = (Text(one.value), one.source, one.unit, restart, Text(one.doc))
            listing.add_row(one.name, *shown)
        stdout().print(listing)
