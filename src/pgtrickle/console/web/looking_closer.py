"""The routes that look closer at one stream table: its changes, and what two moments differ in."""

from __future__ import annotations

import json
from dataclasses import asdict

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pgtrickle.console.closer import compare_moments, tail_changes
from pgtrickle.console.web.guard import Guard
from pgtrickle.console.web.visitor import visitor_of

_LONGEST = 300  # characters of a name or a moment
_LARGEST_ID = 2**63 - 1


def closer_routes(guard: Guard) -> list[Route]:
    """Return the routes."""

    async def bounded(request: Request) -> Response:
        if not guard.deeds.allows(guard.caller(request)):
            raise HTTPException(429, "too many comparisons: wait a moment")
        return await difference(request)

    return [Route("/api/changes", changes), Route("/api/difference", bounded)]


async def changes(request: Request) -> Response:
    """Return what has changed in a stream table after some entry of its outbox."""
    name, after = _word(request, "name"), _word(request, "after")
    if after and not (after.isdecimal() and int(after) <= _LARGEST_ID):
        raise HTTPException(400, "an entry has a number")
    trickle = visitor_of(request).trickle
    found = await run_in_threadpool(tail_changes, trickle, name, int(after) if after else None)
    return _answer(asdict(found))


async def difference(request: Request) -> Response:
    """Return what the copy in the lake of a stream table gained and lost between two moments."""
    name, before, after = (_word(request, one) for one in ("name", "before", "after"))
    if not (name and before and after):
        raise HTTPException(400, "name a stream table and two moments")
    trickle = visitor_of(request).trickle
    found = await run_in_threadpool(compare_moments, trickle, name, before, after)
    return _answer(asdict(found))


def _word(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if len(text) > _LONGEST:
        raise HTTPException(400, "a name or a moment is too long")
    return text


def _answer(document: object) -> Response:
    # Numbers with a point come as Decimals, of which JSON has no kind: their digits stay.
    return Response(json.dumps(document, default=str), media_type="application/json")
