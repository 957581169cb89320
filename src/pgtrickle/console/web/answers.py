"""What every entrance needs: the body of a request, short answers, the forms of entrances."""

from __future__ import annotations

from html import escape
from typing import Final
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_LARGEST = 65_536  # bytes of a request
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>pgtrickle</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><link rel="stylesheet" href="/static/console.css">
</head><body><main class="entrance"><h1>pgtrickle</h1>{}</main></body></html>
"""
TOKEN_FORM: Final = """<form method="post" action="/login">
<p><label>The token of this console <input name="token" type="password" required></label></p>
<p><button>Open</button></p></form>"""  # noqa: S105 - a form
ROLE_FORM: Final = """<p>Sign in as a role of the database.
You see and do here what that role may.</p>
<form method="post" action="/login">
<p><label>Role <input name="role" autocomplete="username" spellcheck="false" required></label></p>
<p><label>Password <input name="password" type="password"
autocomplete="current-password" required></label></p>
<p><button>Sign in</button></p></form>"""


async def read_body(request: Request) -> bytes:
    """Return the body of a request, if it is no longer than any of ours."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST:
            raise HTTPException(413, "the request is too long")
    return body


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that was sent."""
    try:
        found = parse_qs((await read_body(request)).decode(), max_num_fields=10)
    except ValueError:
        raise HTTPException(400, "the request is no form") from None
    return {name: values[0] for name, values in found.items()}


def say(status: int, text: str) -> Response:
    """Answer with a line of text."""
    return Response(text + "\n", status, media_type="text/plain; charset=utf-8")


def show_form(form: str, status: int = 401, trouble: str = "") -> Response:
    """Answer with a form that opens the page, and with what was wrong before."""
    told = f'<p id="trouble" role="alert">{escape(trouble)}</p>' if trouble else ""
    return Response(_PAGE.format(told + form), status, media_type="text/html; charset=utf-8")
