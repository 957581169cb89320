"""A page with the board of a demo, which loads itself again every second; it has no script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from socket import create_server

from pgtrickle.demo.board import Board, shown

_STYLE = (
    "body{font:16px system-ui;margin:2rem auto;max-width:48rem;color-scheme:light dark}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.4rem .8rem;text-align:left}"
    "tr:nth-child(even){background:#8882}"
)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


@contextmanager
def page_of(board: Board) -> Iterator[str | None]:
    """Serve the board on this machine; yield its address, None without the extra ``ui``."""
    try:
        import uvicorn  # noqa: PLC0415 - an extra
        from starlette.applications import Starlette  # noqa: PLC0415 - an extra
        from starlette.middleware import Middleware  # noqa: PLC0415 - an extra
        from starlette.middleware.trustedhost import TrustedHostMiddleware  # noqa: PLC0415 - an extra
        from starlette.requests import Request  # noqa: PLC0415 - an extra
        from starlette.responses import HTMLResponse  # noqa: PLC0415 - an extra
        from starlette.routing import Route  # noqa: PLC0415 - an extra
    except ImportError:
        yield None
        return

    async def show(_: Request) -> HTMLResponse:
        return HTMLResponse(render(board), headers=_HEADERS)

    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    config = uvicorn.Config(
        Starlette(routes=[Route("/", show)], middleware=[hosts]),
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=[[listener]], name="demo-page")
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def render(board: Board) -> str:
    """Return the page."""
    head = "".join(f"<th>{escape(one)}</th>" for one in board.columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(shown(one))}</td>' for one in row)}</tr>" for row in board.rows
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=1>"
        f"<title>{escape(board.title)}</title><style>{_STYLE}</style><h1>{escape(board.title)}</h1>"
        f"<table><tr>{head}</tr>{body}</table>"
    )
