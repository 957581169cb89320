"""The web page: what it shows, what it may do, and the guard before both."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgtrickle.client.commands import estimate_query
from pgtrickle.console.actions import ACTIONS, perform, tell
from pgtrickle.console.panels import PANELS, Panel
from pgtrickle.console.web.answers import read_body, say
from pgtrickle.console.web.documents import error_document, validation_document
from pgtrickle.console.web.guard import HEADERS, Guard
from pgtrickle.console.web.looking_closer import closer_routes
from pgtrickle.console.web.visitor import Entrance, note_visitor, visitor_of
from pgtrickle.errors import InternalError, TrickleError
from pgtrickle.model.text.names import QualifiedName

_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_FILES = {
    "console.html",
    "console.js",
    "closer.js",
    "charting.js",
    "making.js",
    "placing.js",
    "console.css",
    "icon.svg",
    "vendor/dagre.esm.js",
    "vendor/uPlot.iife.min.js",
    "vendor/uPlot.min.css",
}
_LONGEST = 300  # characters of a name or a filter
_VIEWERS = 64
_OPEN = {"/login", "/healthz", "/static/console.css"}  # to everybody


@dataclass(frozen=True, slots=True)
class Site:
    """The routes; each acts with the rights of the visitor whom the entrance has found."""

    guard: Guard
    entrance: Entrance

    def app(self) -> ASGIApp:
        """Return the guarded application."""
        routes = [
            Route("/", self.file),
            Route("/static/{name:path}", self.file),
            Route("/login", self.entrance.take, methods=["GET", "POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/healthz", self.health),
            Route("/api/session", self.session),
            Route("/api/here", self.here, methods=["POST"]),
            Route("/api/panel/{panel}", self.panel),
            Route("/api/explain", self.explain),
            Route("/events", self.events),
            Route("/api/act", self.act, methods=["POST"]),
            Route("/api/validate", self.validate, methods=["POST"]),
            Route("/api/create", self.create, methods=["POST"]),
            *closer_routes(self.guard),
        ]
        handlers: dict[Any, Callable[..., Any]] = {TrickleError: _told}
        return Guarded(
            Starlette(routes=routes, exception_handlers=handlers), self.guard, self.entrance
        )

    async def file(self, request: Request) -> Response:
        """Return a file of the page."""
        name = request.path_params.get("name", "console.html")
        if name not in _FILES:
            raise HTTPException(404)
        text = resources.files("pgtrickle.console.web").joinpath("static", name).read_bytes()
        return Response(text, media_type=_KINDS[name.rpartition(".")[2]])

    async def logout(self, request: Request) -> Response:
        """Let the visitor go."""
        self._check_deed(request)
        return await self.entrance.leave(request)

    async def here(self, request: Request) -> Response:
        """Hear that somebody is at the page, though nothing else is asked."""
        self._check_deed(request)
        return JSONResponse({"here": True})

    async def health(self, _: Request) -> Response:
        """Say that the page is served, and nothing else."""
        return JSONResponse({"serves": True})

    async def session(self, request: Request) -> Response:
        """Return what the page needs to know once."""
        visitor = visitor_of(request)
        actions = [] if self.guard.read_only else ACTIONS
        return JSONResponse(
            {
                "csrf": visitor.csrf,
                "role": visitor.role,
                "leaves": visitor.leaves,
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
        return JSONResponse(await visitor_of(request).hub.document(panel, *_asked(request)))

    async def explain(self, request: Request) -> Response:
        """Return the plan of a stream table."""
        name = _short(request.query_params.get("name", ""))
        found = await visitor_of(request).hub.explain(name)
        return JSONResponse(
            {
                "name": found.name,
                "plan": found.document,
                "refusal": found.refusal,
                "figures": found.figures,
            }
        )

    async def events(self, request: Request) -> Response:
        """Follow one panel for as long as somebody looks."""
        panel = _panel(request.query_params.get("panel", "overview"))
        visitor = visitor_of(request)
        if visitor.hub.viewers >= _VIEWERS:
            raise HTTPException(503, "too many pages look: close one")
        subject, words = _asked(request)

        async def lines() -> AsyncIterator[str]:
            yield "retry: 2000\n\n"
            async for event, data in visitor.hub.follow(panel, subject, words, visitor.lives):
                yield f"event: {event}\ndata: {data}\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    async def act(self, request: Request) -> Response:
        """Do something, if this page may, with the rights of the visitor's role."""
        given = await self._deed(request)
        if self.guard.read_only:
            raise HTTPException(403, "this console only shows: it was started with --read-only")
        name = _short(str(given.get("name", "")))
        wanted = (given.get("action"), given.get("target"))
        for action in ACTIONS:
            if (action.name, action.target.value) == wanted:
                if action.target.value == "request" and not name.isdecimal():
                    raise HTTPException(400, "a request has a number")
                answer = await run_in_threadpool(perform, action, visitor_of(request).trickle, name)
                return JSONResponse({"done": answer.done, "text": answer.text})
        raise HTTPException(400, "there is no such action")

    async def validate(self, request: Request) -> Response:
        """Say what would become of a query, and change nothing."""
        given = await self._deed(request)
        query = str(given.get("query", ""))
        trickle = visitor_of(request).trickle
        found = await run_in_threadpool(trickle.validate_query, query)
        document = validation_document(found)
        if document["usable"]:
            expected = await run_in_threadpool(estimate_query, trickle, query)
            document["estimate"] = None if expected is None else asdict(expected)
        return JSONResponse(document)

    async def create(self, request: Request) -> Response:
        """Make a stream table of a query, with the rights of the visitor's role."""
        given = await self._deed(request)
        if self.guard.read_only:
            raise HTTPException(403, "this console only shows: it was started with --read-only")
        name, schedule = (_short(str(given.get(one, ""))) for one in ("name", "schedule"))
        trickle, query = visitor_of(request).trickle, str(given.get("query", ""))
        try:
            made = await run_in_threadpool(
                trickle.create_stream_table, name, query, schedule or "calculated"
            )
        except TrickleError as error:
            return JSONResponse({"done": False, "text": tell(error)})
        rows = "" if made is None else f" with {made.rows_inserted:,} rows"
        return JSONResponse({"done": True, "text": f"{name} is created{rows}"})

    def _check_deed(self, request: Request) -> None:
        if not self.guard.may_act(request, visitor_of(request).csrf):
            raise HTTPException(403, "this request does not come from the page of this console")

    async def _deed(self, request: Request) -> dict[str, Any]:
        self._check_deed(request)
        if not self.guard.deeds.allows(self.guard.caller(request)):
            raise HTTPException(429, "too many actions: wait a moment")
        try:
            given = json.loads(await read_body(request))
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise HTTPException(400, "the request is no JSON object")
        return given


class Guarded:
    """Lets nothing through that the guard refuses, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, guard: Guard, entrance: Entrance) -> None:
        self._app, self._guard, self._entrance = app, guard, entrance

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

        try:
            refusal = await self._refusal(Request(scope))
            await (refusal or self._app)(scope, receive, send_guarded)
        except ClientDisconnect:
            return

    async def _refusal(self, request: Request) -> Response | None:
        """Return why a request is not answered, or note whose it is."""
        if not self._guard.knows_host(request):
            return say(421, "this console does not answer to this name: see --allow-host")
        if not self._guard.requests.allows(self._guard.caller(request)):
            return say(429, "too many requests: wait a moment")
        if request.url.path in _OPEN:
            return None
        try:
            visitor = await self._entrance.find(request)
        except HTTPException as error:
            return say(error.status_code, error.detail)
        if visitor is None:
            return self._entrance.refuse(request)
        note_visitor(request, visitor)
        return None


def _told(_: Request, error: Exception) -> Response:
    told = error if isinstance(error, TrickleError) else InternalError(str(error))
    return JSONResponse({"error": error_document(told)}, 502)


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
