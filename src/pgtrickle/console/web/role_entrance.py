"""Let in roles of the database that show their password, each with its own rights."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pgtrickle.console.actions import tell
from pgtrickle.console.web.answers import ROLE_FORM, read_form, say, show_form
from pgtrickle.console.web.guard import COOKIE, Guard, Rate
from pgtrickle.console.web.seats import Seats
from pgtrickle.console.web.visitor import Visitor
from pgtrickle.console.web.visits import Visits
from pgtrickle.errors import PrivilegeError, TrickleError

_LONGEST_ROLE, _LONGEST_PASSWORD = 63, 1000  # bytes, characters
_AT_ONCE = 4  # sign-ins that the server is asked about


@dataclass(slots=True)
class RoleEntrance:
    """A form for role and password, which the server checks."""

    guard: Guard
    seats: Seats
    visits: Visits
    # Of one role, whoever tries; slow enough that no list of passwords is worth its time.
    tries: Rate = field(default_factory=lambda: Rate(burst=10, per_second=0.1))
    _asking: int = 0

    async def find(self, request: Request) -> Visitor | None:
        """Return the role whose visit the cookie names."""
        # The stream of events goes on by itself: it is no sign that somebody is there.
        busy = request.url.path != "/events"
        visit = self.visits.find(request.cookies.get(COOKIE, ""), busy=busy)
        if visit is None:
            return None
        seat = visit.seat
        return Visitor(
            seat.trickle,
            seat.hub,
            visit.csrf,
            seat.role,
            leaves=True,
            lives=lambda: not visit.ended,
        )

    async def take(self, request: Request) -> Response:
        """Ask the server whether role and password are right, and begin a visit."""
        if request.method != "POST":
            return RedirectResponse("/", 303)
        if not self.guard.is_from_here(request):
            raise HTTPException(403, "this request does not come from the page of this console")
        if not self.guard.is_private(request):
            raise HTTPException(403, "passwords would cross the network as text: use the proxy")
        given = await read_form(request)
        role, password = given.get("role", ""), given.get("password", "")
        if not self._may_try(request, role):
            return show_form(ROLE_FORM, 429, "too many attempts: wait a moment")
        if self.visits.full:
            return show_form(ROLE_FORM, 503, "too many people look: try again later")
        try:
            secret = await self._begin(role, password)
        except TrickleError as error:
            return show_form(ROLE_FORM, 401, tell(error))
        self.visits.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/", 303)
        self.guard.leave_cookie(answer, request, secret)
        return answer

    def _may_try(self, request: Request, role: str) -> bool:
        caller = self.guard.logins.allows(self.guard.caller(request))
        return caller and self._asking < _AT_ONCE and self.tries.allows(role)

    async def _begin(self, role: str, password: str) -> str:
        # Without one, libpq would look for a password of the console's own.
        if not (is_role(role) and 0 < len(password) <= _LONGEST_PASSWORD and "\0" not in password):
            raise PrivilegeError(
                "this is no role, or no password", hint="Sign in as a role of the database."
            )
        self._asking += 1
        try:
            seat = await run_in_threadpool(self.seats.take, role, password)
        finally:
            self._asking -= 1
        return self.visits.begin(seat)

    def refuse(self, request: Request) -> Response:
        """Ask for role and password."""
        if request.url.path == "/":
            return show_form(ROLE_FORM)
        return say(401, "sign in first")

    async def leave(self, request: Request) -> Response:
        """End the visit."""
        self.visits.end(request.cookies.get(COOKIE, ""))
        answer = say(200, "signed out")
        answer.delete_cookie(COOKIE, path="/")
        return answer

    def close(self) -> None:
        """End all visits."""
        self.visits.close()


def is_role(name: str) -> bool:
    r"""Whether a text can be the name of a role.

    >>> [is_role(one) for one in ("ann", "Ann Lee", "", "a\0b", "x" * 64)]
    [True, True, False, False, False]
    """
    return name.isprintable() and 0 < len(name.encode()) <= _LONGEST_ROLE
