"""One look for all who look: viewers of the same panel share its pictures, and hear at once."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool

from pgtrickle.catalog.console.picture import Picture
from pgtrickle.console.panels import Panel
from pgtrickle.console.view import Explained, View
from pgtrickle.console.watching import Watch
from pgtrickle.console.web.documents import error_document, panel_document
from pgtrickle.console.web.patches import is_nothing, patch
from pgtrickle.errors import ConnectionLostError, TrickleError
from pgtrickle.service.insight.channels import Notice

Event = tuple[str, str]  # its kind, and JSON
_FRESH = 0.9  # of the seconds between two looks: as long, a picture serves whoever asks
_KEPT = 50  # pictures, of different panels and stream tables


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A panel, as it was drawn for some words of a filter."""

    document: dict[str, Any]
    # What pages were told of it, by the document that they had seen.
    told: list[tuple[dict[str, Any] | None, Event]] = field(default_factory=list)


@dataclass(slots=True)
class _Shared:
    """The last picture for one panel, and who asks for the next."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    taken: float = float("-inf")
    found: Picture | TrickleError = field(
        default_factory=lambda: ConnectionLostError("nothing was read yet")
    )
    drawn: dict[str, _Drawn] = field(default_factory=dict)  # by the words of the filter


class Hub:
    """Takes pictures for all viewers, at most one for each panel and stream table at a time."""

    def __init__(self, watch: Watch, seconds: float) -> None:
        self._watch = watch
        self._seconds = seconds
        self._shared: dict[tuple[str, str | None], _Shared] = {}
        self._viewers: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = threading.Event()
        watch.heard = self._wake

    @property
    def viewers(self) -> int:
        """How many pages look at the moment."""
        return len(self._viewers)

    def _wake(self) -> None:
        """Tell all viewers, from the thread that hears, that there is something new."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for one in self._viewers:
            one.set()

    def close(self) -> None:
        """Let every page that looks go: nothing more is shown."""
        self._ended.set()
        self._wake_all()

    async def document(self, panel: Panel, subject: str | None, words: str) -> dict[str, Any]:
        """Return a panel as JSON; raise the error that kept the picture from being taken."""
        return (await self._drawn(panel, subject, words)).document

    def _draw(self, panel: Panel, picture: Picture, subject: str | None, words: str) -> _Drawn:
        view = View(
            picture,
            subject,
            None,
            self._watch.notices,
            self._watch.deaf,
            self._watch.log(),
            self._watch.log_path,
        )
        return _Drawn(panel_document(panel, view, words))

    async def explain(self, name: str) -> Explained:
        """Return the plan of a stream table."""
        return await run_in_threadpool(self._watch.explain, name)

    async def _drawn(self, panel: Panel, subject: str | None, words: str) -> _Drawn:
        """Return what all who look at the same get, drawn once for each picture."""
        wanted = subject if panel.name == "table" else None
        while len(self._shared) > _KEPT:
            del self._shared[next(iter(self._shared))]
        shared = self._shared.setdefault((panel.name, wanted), _Shared())
        async with shared.lock:
            if time.monotonic() >= shared.taken + max(self._seconds, panel.pace) * _FRESH:
                try:
                    shared.found = await run_in_threadpool(self._watch.look, panel, None, wanted)
                except TrickleError as error:
                    shared.found = error
                shared.taken = time.monotonic()
                shared.drawn.clear()
            if isinstance(shared.found, TrickleError):
                raise shared.found
            if words not in shared.drawn:
                shared.drawn[words] = await run_in_threadpool(
                    self._draw, panel, shared.found, wanted, words
                )
            return shared.drawn[words]

    def _event(self, seen: dict[str, Any] | None, drawn: _Drawn) -> Event:
        """Return what a page is told that has seen another picture; most have seen the same."""
        for known, event in drawn.told:
            if known is seen:
                return event
        event = _event(seen, drawn.document)
        drawn.told.append((seen, event))
        return event

    async def follow(
        self,
        panel: Panel,
        subject: str | None,
        words: str,
        lives: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[Event]:
        """Yield a panel whenever it changes, notices as they are heard, and whether all is well.

        It ends when the visit does, which ``lives`` tells.
        """
        self._loop = asyncio.get_running_loop()
        told = self._watch.count
        seen: dict[str, Any] | None = None
        awake = asyncio.Event()
        self._viewers.add(awake)
        try:
            while lives() and not self._ended.is_set():
                try:
                    drawn = await self._drawn(panel, subject, words)
                except TrickleError as error:
                    yield "away", json.dumps(error_document(error))
                else:
                    yield self._event(seen, drawn)
                    seen = drawn.document
                end = time.monotonic() + self._seconds
                while not self._ended.is_set() and (left := end - time.monotonic()) > 0:
                    told, news = self._watch.notices_since(told)
                    for one in news:
                        yield "notice", json.dumps(_notice(one))
                    awake.clear()
                    try:
                        await asyncio.wait_for(awake.wait(), left)
                    except TimeoutError:
                        break
            if not lives():
                yield "over", "{}"
        finally:
            self._viewers.discard(awake)


def _event(seen: dict[str, Any] | None, document: dict[str, Any]) -> Event:
    changed = patch(seen, document)
    if changed is None:
        return "panel", json.dumps(document, ensure_ascii=False)
    if is_nothing(changed):
        return "beat", json.dumps(document["moment"])
    return "patch", json.dumps(changed, ensure_ascii=False)


def _notice(notice: Notice) -> dict[str, Any]:
    return {
        "channel": notice.channel,
        "name": notice.stream_table,
        "heard_at": notice.heard_at.isoformat(),
        "payload": notice.payload,
    }
