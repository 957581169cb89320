"""Let in the roles that an authenticating proxy names in a header, each with its own rights.

The server decides once more: it must let this console in as that role, by a certificate, by the
account that it runs under, or by a password file.  ``SET ROLE`` would not do: a function that a
role has written could set another one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pgtrickle.console.actions import tell
from pgtrickle.console.web.answers import say
from pgtrickle.console.web.guard import Guard
from pgtrickle.console.web.role_entrance import is_role
from pgtrickle.console.web.seats import Seats
from pgtrickle.console.web.visitor import Visitor
from pgtrickle.console.web.visits import Visits
from pgtrickle.errors import SettingError, TrickleError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_OTHERS = {"host", "cookie", "authorization", "origin", "content-length", "x-forwarded-for"}


@dataclass(slots=True)
class ProxyEntrance:
    """A header with the name of a role, believed of named addresses alone."""

    guard: Guard
    header: str
    seats: Seats
    visits: Visits

    async def find(self, request: Request) -> Visitor | None:
        """Return the role that the proxy names."""
        role = self._role(request)
        if role is None:
            return None
        busy = request.url.path != "/events"
        visit = self.visits.find(role, busy=busy)
        if visit is None:
            if self.visits.full or not self.guard.logins.allows(f"as {role}"):
                raise HTTPException(429, "too many attempts: wait a moment")
            try:
                seat = await run_in_threadpool(self.seats.take, role, None)
            except TrickleError as error:
                raise HTTPException(403, tell(error)) from error
            self.visits.begin(seat, role)
            visit = self.visits.find(role, busy=busy)
            if visit is None:
                return None
        seat, found = visit.seat, visit
        return Visitor(seat.trickle, seat.hub, visit.csrf, seat.role, lives=lambda: not found.ended)

    def _role(self, request: Request) -> str | None:
        if not self.guard.is_from_proxy(request):
            return None
        given = request.headers.getlist(self.header)
        # Two may be one of the browser and one of the proxy: nobody knows which.
        if len(given) != 1 or not is_role(given[0]):
            return None
        return given[0]

    async def take(self, request: Request) -> Response:
        """Refuse: the proxy signs people in."""
        return self.refuse(request)

    def refuse(self, _: Request) -> Response:
        """Say who signs people in."""
        return say(401, "this console is reached through its proxy, which signs people in")

    async def leave(self, request: Request) -> Response:
        """End the visit; the next request begins another, until the proxy signs the person out."""
        role = self._role(request)
        if role is not None:
            self.visits.end(role)
        return say(200, "sign out at the proxy")

    def close(self) -> None:
        """End all visits."""
        self.visits.close()


def check_header(name: str) -> str:
    """Return the name of a header; raise unless it can name a role.

    >>> check_header("X-Remote-User")
    'X-Remote-User'
    """
    if not _NAME.fullmatch(name) or name.lower() in _OTHERS:
        raise SettingError(
            f'"{name}" cannot be the header of a proxy',
            hint="Name the header in which your proxy sends the role, such as X-Remote-User.",
        )
    return name
