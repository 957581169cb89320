"""Who looks at the page, and with whose rights everything is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from pgtrickle.client.trickle import Trickle
from pgtrickle.console.web.hub import Hub


def always() -> bool:
    """Whether the visit goes on: that of a token does for as long as the page is served."""
    return True


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who may look."""

    trickle: Trickle  # with the rights of this visitor, and of nobody else
    hub: Hub
    csrf: str  # what a page of this visitor sends with each deed
    role: str = ""  # that has signed in; empty: the role of the console itself
    leaves: bool = False  # can sign out
    lives: Callable[[], bool] = always


_VISITOR = "pgtrickle.visitor"  # in the scope of a request


def note_visitor(request: Request, visitor: Visitor) -> None:
    """Note whose request it is."""
    request.scope[_VISITOR] = visitor


def visitor_of(request: Request) -> Visitor:
    """Return whose request it is, which was noted before any route saw it."""
    found: Visitor = request.scope[_VISITOR]
    return found


class Entrance(Protocol):
    """One way to let people in."""

    async def find(self, request: Request) -> Visitor | None:
        """Return who sends a request; None if that is nobody whom we let in."""
        ...

    async def take(self, request: Request) -> Response:
        """Let somebody in who shows what opens the page."""
        ...

    def refuse(self, request: Request) -> Response:
        """Tell somebody who is not let in what to do."""
        ...

    async def leave(self, request: Request) -> Response:
        """Let somebody go."""
        ...

    def close(self) -> None:
        """Let nobody stay."""
        ...
