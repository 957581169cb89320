"""A console without a terminal: keys go in, the text of the screen comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from textual.pilot import Pilot

from pgtrickle import Notice, Picture, Trickle
from pgtrickle.console.panels import Panel
from pgtrickle.console.terminal.app import Console
from pgtrickle.console.view import Explained
from pgtrickle.console.watching import Watch

T = TypeVar("T")
SECONDS = 20.0  # for which something is waited for


class StillWatch(Watch):
    """Shows one picture again and again."""

    def __init__(self, trickle: Trickle, picture: Picture, notices: Sequence[Notice] = ()) -> None:
        super().__init__(trickle)
        self._picture = picture
        self._notices.extend(notices)

    def look(self, panel: Panel, ids: Sequence[int] | None, subject: str | None) -> Picture:
        return self._picture

    def explain(self, name: str) -> Explained:
        return super().explain(name)


def screen(app: Console) -> str:
    """Return what is on the screen, line by line."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


async def until(pilot: Pilot[None], seen: Callable[[str], bool]) -> str:
    """Wait until the screen is as wanted, and return it."""
    app = pilot.app
    assert isinstance(app, Console)
    end = asyncio.get_running_loop().time() + SECONDS
    while not seen(shown := screen(app)):
        assert asyncio.get_running_loop().time() < end, shown
        await pilot.pause(0.02)
    return shown


def play(
    app: Console,
    act: Callable[[Pilot[None]], Awaitable[T]],
    size: tuple[int, int] = (80, 24),
) -> T:
    """Run a console, and what its user does."""

    async def run() -> T:
        async with app.run_test(size=size) as pilot:
            return await act(pilot)

    return asyncio.run(run())


def typed(text: str) -> list[str]:
    """Return the keys by which a text is typed."""
    named: dict[str, Any] = {
        " ": "space",
        "/": "slash",
        ":": "colon",
        ".": "full_stop",
        "_": "underscore",
    }
    return [named.get(one, one) for one in text]
