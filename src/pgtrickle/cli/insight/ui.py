"""``pgtrickle ui``: look at stream tables live, on a web page."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, print_text
from pgtrickle.errors import SettingError
from pgtrickle.extras import require

if TYPE_CHECKING:  # takes longer to import than --help should
    from pgtrickle import Trickle
    from pgtrickle.console.web.serving import SignIn

_CTRL_C = 0  # the way to end it


def ui(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="Listen at this address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8642,
    every: Annotated[
        float, typer.Option(min=0.2, max=3600, help="Ask the database every so many seconds.")
    ] = 1.0,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show everything, and do nothing.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Read the token from this file, not a new one.", show_default=False),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let all users of this machine in, on loopback.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Answer to this name, too, behind a proxy.", show_default=False),
    ] = None,
    sign_in: Annotated[
        bool,
        typer.Option("--sign-in", help="Let roles of the database in, each with its own rights."),
    ] = False,
    trust_proxy_header: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Let in the role that a proxy names in this header; needs --proxy.",
            show_default=False,
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Believe what a proxy at this address, or in this network, says.",
            show_default=False,
        ),
    ] = None,
    idle_minutes: Annotated[
        float,
        typer.Option(min=1, max=720, help="Sign out whoever does nothing for so many minutes."),
    ] = 30,
    log: Annotated[
        Path | None,
        typer.Option(help="Show the end of this log file, too.", show_default=False),
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Serve a page on which stream tables are seen live, until Ctrl-C.

    It prints the address, which holds a token. Whoever has it sees what the database role of this
    command sees, and may do what that role may, unless --read-only. With --sign-in there is no
    token: people sign in as roles of the database, and see and do what these may.
    """
    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn, local=False) as trickle,
    ):
        require("starlette")
        require("uvicorn")
        from pgtrickle.console.web import serving  # noqa: PLC0415 - takes longer than --help should

        by_role = _by_role(trickle, host, sign_in, trust_proxy_header, proxy, idle_minutes)
        if by_role is not None and (no_token or token_file):
            raise SettingError("roles sign in, or there is a token", hint="Leave one out.")
        if no_token:
            _check_alone(host)
        token = "" if no_token or by_role else serving.read_token(token_file)
        listener = serving.listen(host, port)
        shown = serving.address(listener, token)
        if as_json:
            print_json({"url": shown}, indent=None)
        else:
            print_text(f"{shown}\nCtrl-C ends")
        names = {host.lower(), *(one.lower() for one in allow_host or ())}
        guard = serving.make_guard(token, names, read_only=read_only, proxies=proxy or ())
        try:
            serving.serve(trickle, guard, listener, seconds=every, log=log, sign_in=by_role)
        except KeyboardInterrupt:
            raise typer.Exit(_CTRL_C) from None


def _by_role(
    trickle: Trickle,
    host: str,
    sign_in: bool,
    header: str | None,
    proxies: list[str] | None,
    idle_minutes: float,
) -> SignIn | None:
    """Return how roles sign in, if they do."""
    from pgtrickle.cli.signing_in import make_sign_in  # noqa: PLC0415 - as above

    if sign_in and header:
        raise SettingError("roles sign in here, or at the proxy", hint="Leave one option out.")
    if header and not proxies:
        raise SettingError(
            "--trust-proxy-header believes nobody without --proxy",
            hint="Name the address of your proxy: --proxy 127.0.0.1.",
        )
    if sign_in and not proxies and not _is_loopback(host):
        raise SettingError(
            f"passwords would cross the network to {host} as text",
            hint="Listen on loopback, or name the proxy with TLS that sends them on: --proxy.",
        )
    if not sign_in and not header:
        return None
    return make_sign_in(trickle.dsn, idle_minutes, header or "")


def _check_alone(host: str) -> None:
    """Refuse to let everybody in who reaches an address of other machines."""
    if not _is_loopback(host):
        raise SettingError(
            f"--no-token would let everybody in who reaches {host}",
            hint="Leave out --no-token, or --host: without it only this machine is served.",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
