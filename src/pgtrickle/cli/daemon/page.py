"""The page of the console, served by the daemon itself: ``pgtrickle run --ui-port``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pgtrickle.cli.output import stderr
from pgtrickle.cli.signing_in import make_sign_in
from pgtrickle.errors import SettingError
from pgtrickle.extras import require

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle

_IDLE_MINUTES = 30


@contextmanager
def serving_page(
    trickle: Trickle, port: int | None, token_file: Path | None, *, sign_in: bool
) -> Iterator[None]:
    """Serve the page to this machine for the length of a block, if a port was given.

    The token comes from a file: what a daemon prints goes into logs.  With ``sign_in`` there is
    none, and roles of the database sign in.
    """
    if port is None:
        yield
        return
    if (token_file is None) is not sign_in:
        raise SettingError(
            "--ui-port needs a token, and a daemon prints none",
            hint="Write one, as openssl rand -hex 24 makes it: --ui-token-file FILE. Or let roles"
            " of the database sign in, without a token: --ui-sign-in.",
        )
    require("starlette")
    require("uvicorn")
    from pgtrickle.console.web import serving  # noqa: PLC0415 - only where it is wanted

    token = "" if token_file is None else serving.read_token(token_file)
    roles = make_sign_in(trickle.dsn, _IDLE_MINUTES) if sign_in else None
    with serving.serving_beside(trickle, port, token, roles) as address:
        way = "for roles of the database" if sign_in else f"with the token in {token_file}"
        stderr().print(f"console on {address}, {way}", markup=False)
        yield
