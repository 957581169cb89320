"""Let in whoever has the token, with the rights of the role of the console itself."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pgtrickle.client.trickle import Trickle
from pgtrickle.console.web.answers import TOKEN_FORM, read_form, say, show_form
from pgtrickle.console.web.guard import COOKIE, Guard
from pgtrickle.console.web.hub import Hub
from pgtrickle.console.web.visitor import Visitor


@dataclass(frozen=True, slots=True)
class TokenEntrance:
    """One token for all."""

    guard: Guard
    trickle: Trickle
    hub: Hub

    async def find(self, request: Request) -> Visitor | None:
        """Return the one visitor, if the request has the cookie or the token."""
        if not self.guard.may_look(request):
            return None
        return Visitor(self.trickle, self.hub, self.guard.csrf)

    async def take(self, request: Request) -> Response:
        """Take the token, from the address that was printed or typed in, and leave a cookie."""
        if not self.guard.logins.allows(self.guard.caller(request)):
            raise HTTPException(429, "too many attempts: wait a moment")
        given = request.query_params.get("token", "")
        if request.method == "POST":
            given = (await read_form(request)).get("token", "").strip()
        if not self.guard.takes_token(given):
            raise HTTPException(401, "this is not the token of this console")
        answer = RedirectResponse("/", 303)
        self.guard.leave_cookie(answer, request, self.guard.cookie)
        return answer

    def refuse(self, request: Request) -> Response:
        """Ask for the token."""
        if request.url.path == "/":
            return show_form(TOKEN_FORM)
        return say(401, "open the address that pgtrickle ui has printed: it holds the token")

    async def leave(self, _: Request) -> Response:
        """Forget the cookie; the token opens the page again."""
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    def close(self) -> None:
        """Show nothing more."""
        self.hub.close()
