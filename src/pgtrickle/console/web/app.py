"""The web page: what it shows, what it may do, and the guard before both."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgtrickle.client.trickle import Trickle
from pgtrickle.console.actions import ACTIONS, perform
from pgtrickle.console.panels import PANELS, Panel
from pgtrickle.console.web.documents import error_document, validation_document
from pgtrickle.console.web.guard import COOKIE, HEADERS, Guard
from pgtrickle.console.web.hub import Hub
from pgtrickle.errors import InternalError, TrickleError
from pgtrickle.model.text.names import QualifiedName

_FILES = {
    "": ("console.html", "text/html; charset=utf-8"),
    "console.js": ("console.js", "text/javascript; charset=utf-8"),
    "drawing.js": ("drawing.js", "text/javascript; charset=utf-8"),
    "console.css": ("console.css", "text/css; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
_FORM = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>pgtrickle</title></head><body>
<main><h1>pgtrickle</h1><form method="post" action="/login">
<p><label>The token of this console <input name="token" type="password" required></label></p>
<p><button>Open</button></p></form></main></body></html>
"""
_LARGEST = 65_536  # bytes of a request
_LONGEST = 300  # characters of a name or a filter
_VIEWERS = 64


@dataclass(frozen=True, slots=True)
class Site:
    """The routes, over one client and one hub."""

    trickle: Trickle
    hub: Hub
    guard: Guard

    def app(self) -> ASGIApp:
        """Return the guarded application."""
        routes = [
            Route("/", self.file),
            Route("/static/{name}", self.file),
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/healthz", self.health),
            Route("/api/session", self.session),
            Route("/api/panel/{panel}", self.panel),
            Route("/api/explain", self.explain),
            Route("/events", self.events),
            Route("/api/act", self.act, methods=["POST"]),
            Route("/api/validate", self.validate, methods=["POST"]),
        ]
        handlers: dict[Any, Callable[..., Any]] = {TrickleError: _told}
        return Guarded(Starlette(routes=routes, exception_handlers=handlers), self.guard)

    async def file(self, request: Request) -> Response:
        """Return a file of the page."""
        found = _FILES.get(request.path_params.get("name", ""))
        if found is None:
            raise HTTPException(404)
        name, kind = found
        text = resources.files("pgtrickle.console.web").joinpath("static", name).read_bytes()
        return Response(text, media_type=kind)

    async def login(self, request: Request) -> Response:
        """Take the token, from the address that was printed or typed in, and leave a cookie."""
        if not self.guard.logins.allows(_caller(request)):
            raise HTTPException(429, "too many attempts: wait a moment")
        given = request.query_params.get("token", "")
        if request.method == "POST":
            typed = parse_qs((await _body(request)).decode(errors="replace"))
            given = typed.get("token", [""])[0].strip()
        if not self.guard.takes_token(given):
            raise HTTPException(401, "this is not the token of this console")
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            COOKIE, self.guard.cookie, httponly=True, samesite="strict", secure=secure, path="/"
        )
        return answer

    async def health(self, _: Request) -> Response:
        """Say that the page is served, and nothing else."""
        return JSONResponse({"serves": True})

    async def session(self, _: Request) -> Response:
        """Return what the page needs to know once."""
        actions = [] if self.guard.read_only else ACTIONS
        return JSONResponse(
            {
                "csrf": self.guard.csrf,
                "read_only": self.guard.read_only,
                "panels": [[one.name, one.key, one.about] for one in PANELS.values()],
                "actions": [
                    [one.name, one.key, one.target.value, one.about, one.question]
                    for one in actions
                ],
            }
        )

    async def panel(self, request: Request) -> Response:
        """Return one panel, once."""
        panel = _panel(request.path_params["panel"])
        return JSONResponse(await self.hub.document(panel, *_asked(request)))

    async def explain(self, request: Request) -> Response:
        """Return the plan of a stream table."""
        found = await self.hub.explain(_short(request.query_params.get("name", "")))
        return JSONResponse({"name": found.name, "plan": found.document, "refusal": found.refusal})

    async def events(self, request: Request) -> Response:
        """Follow one panel for as long as somebody looks."""
        panel = _panel(request.query_params.get("panel", "overview"))
        if self.hub.viewers >= _VIEWERS:
            raise HTTPException(503, "too many pages look: close one")
        subject, words = _asked(request)

        async def lines() -> AsyncIterator[str]:
            yield "retry: 2000\n\n"
            async for event, data in self.hub.follow(panel, subject, words):
                yield f"event: {event}\ndata: {data}\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    async def act(self, request: Request) -> Response:
        """Do something, if this page may, with the rights of the database role of the console."""
        given = await self._deed(request)
        if self.guard.read_only:
            raise HTTPException(403, "this console only shows: it was started with --read-only")
        name = _short(str(given.get("name", "")))
        wanted = (given.get("action"), given.get("target"))
        for action in ACTIONS:
            if (action.name, action.target.value) == wanted:
                if action.target.value == "request" and not name.isdecimal():
                    raise HTTPException(400, "a request has a number")
                answer = await run_in_threadpool(perform, action, self.trickle, name)
                return JSONResponse({"done": answer.done, "text": answer.text})
        raise HTTPException(400, "there is no such action")

    async def validate(self, request: Request) -> Response:
        """Say what would become of a query, and change nothing."""
        given = await self._deed(request)
        query = str(given.get("query", ""))
        found = await run_in_threadpool(self.trickle.validate_query, query)
        return JSONResponse(validation_document(found))

    async def _deed(self, request: Request) -> dict[str, Any]:
        if not self.guard.may_act(request):
            raise HTTPException(403, "this request does not come from the page of this console")
        if not self.guard.deeds.allows(_caller(request)):
            raise HTTPException(429, "too many actions: wait a moment")
        try:
            given = json.loads(await _body(request))
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise HTTPException(400, "the request is no JSON object")
        return given


class Guarded:
    """Lets nothing through that the guard refuses, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    (name.lower().encode(), value.encode()) for name, value in HEADERS.items()
                ]
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        refusal = self._refusal(Request(scope))
        try:
            await (refusal or self._app)(scope, receive, send_guarded)
        except ClientDisconnect:
            return

    def _refusal(self, request: Request) -> Response | None:
        if not self._guard.knows_host(request):
            return _say(421, "this console does not answer to this name: see --allow-host")
        if not self._guard.requests.allows(_caller(request)):
            return _say(429, "too many requests: wait a moment")
        if request.url.path in {"/login", "/healthz"} or self._guard.may_look(request):
            return None
        if request.url.path == "/":
            return Response(_FORM, 401, media_type="text/html; charset=utf-8")
        return _say(401, "open the address that pgtrickle ui has printed: it holds the token")


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST:
            raise HTTPException(413, "the request is too long")
    return body


def _say(status: int, text: str) -> Response:
    return Response(text + "\n", status, media_type="text/plain; charset=utf-8")


def _told(_: Request, error: Exception) -> Response:
    told = error if isinstance(error, TrickleError) else InternalError(str(error))
    return JSONResponse({"error": error_document(told)}, 502)


def _caller(request: Request) -> str:
    return request.client.host if request.client else ""


def _panel(name: str) -> Panel:
    if name not in PANELS:
        raise HTTPException(404, "there is no such panel")
    return PANELS[name]


def _asked(request: Request) -> tuple[str | None, str]:
    """Return the stream table and the filter that a request names."""
    name = _short(request.query_params.get("name", ""))
    words = _short(request.query_params.get("words", ""))
    return (str(QualifiedName.parse(name)) if name else None), words


def _short(text: str) -> str:
    if len(text) > _LONGEST:
        raise HTTPException(400, "a name or a filter is too long")
    return text
