"""How the page of ``pgtrickle ui`` opens clients for the roles that sign in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # takes longer to import than --help should
    from pgtrickle import Trickle
    from pgtrickle.console.web.serving import SignIn


def make_sign_in(dsn: str, idle_minutes: float, header: str = "") -> SignIn:
    """Return how roles sign in to a database: by a password, or by what a proxy says."""
    from pgtrickle.console.web.serving import SignIn  # noqa: PLC0415 - see above

    return SignIn(partial(_opened, dsn), idle_minutes * 60, header)


@contextmanager
def _opened(dsn: str, role: str, password: str | None) -> Iterator[Trickle]:
    from pgtrickle import connect  # noqa: PLC0415 - see above
    from pgtrickle.catalog.access.sign_in import (  # noqa: PLC0415 - see above
        sign_in_as_named,
        sign_in_with_password,
    )
    from pgtrickle.client.commands import beside_daemon  # noqa: PLC0415 - see above

    if password is None:
        own = sign_in_as_named(dsn, role)
    else:
        own = sign_in_with_password(dsn, role, password)
    with connect(own, init=False) as trickle:
        yield beside_daemon(trickle, lambda _: None)
