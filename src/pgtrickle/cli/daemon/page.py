"""The page of the console, served by the daemon itself: ``pgtrickle run --ui-port``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pgtrickle.cli.output import stderr
from pgtrickle.errors import SettingError
from pgtrickle.extras import require

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle


@contextmanager
def serving_page(trickle: Trickle, port: int | None, token_file: Path | None) -> Iterator[None]:
    """Serve the page to this machine for the length of a block, if a port was given.

    The token comes from a file: what a daemon prints goes into logs.
    """
    if port is None:
        yield
        return
    if token_file is None:
        raise SettingError(
            "--ui-port needs a token, and a daemon prints none",
            hint="Write one, as openssl rand -hex 24 makes it: --ui-token-file FILE.",
        )
    require("starlette")
    require("uvicorn")
    from pgtrickle.console.web import serving  # noqa: PLC0415 - only where it is wanted

    with serving.serving_beside(trickle, port, serving.read_token(token_file)) as address:
        stderr().print(f"console on {address}, with the token in {token_file}", markup=False)
        yield
