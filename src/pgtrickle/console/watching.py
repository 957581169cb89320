"""What a console asks of the database, in threads of its own: pictures, plans, notices, the log."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from pgtrickle.catalog.console.picture import Picture
from pgtrickle.client.commands import hear_notices
from pgtrickle.client.trickle import Trickle
from pgtrickle.console.closer import edge_figures
from pgtrickle.console.panels import Panel
from pgtrickle.console.view import Explained
from pgtrickle.errors import TrickleError
from pgtrickle.model.text.passwords import hide_passwords
from pgtrickle.service.insight.channels import Notice

_NOTICES = 500  # that are kept
_LOG_BYTES, _LOG_LINES = 65_536, 200  # of the end of a log file
_PAUSE = 5.0  # seconds until a lost server is listened to again


class Watch:
    """Looks at one database for one console."""

    def __init__(self, trickle: Trickle, log: Path | None = None) -> None:
        self._trickle = trickle
        self._log = log
        self._ended = threading.Event()
        self._notices: deque[Notice] = deque(maxlen=_NOTICES)
        self._listener: threading.Thread | None = None
        self.deaf = ""  # why nothing is heard
        self.count = 0  # of the notices that were heard
        self.heard: Callable[[], None] = lambda: None  # is called after each, in another thread

    def look(self, panel: Panel, ids: Sequence[int] | None, subject: str | None) -> Picture:
        """Take the picture that a panel shows."""
        parts = tuple(panel.parts)
        return self._trickle.insight.picture(parts, ids=ids, name=subject)

    def explain(self, name: str) -> Explained:
        """Ask for the plan of a stream table, and for what flowed in its last refresh."""
        try:
            text = self._trickle.explain_stream_table(name, "json")
            figures = edge_figures(self._trickle, name)
        except TrickleError as error:
            return Explained(
                name, None, hide_passwords(f"error {error.code}: {error}. {error.hint}")
            )
        return Explained(name, json.loads(text), figures=figures)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What was heard so far, the newest last."""
        return tuple(self._notices)

    def notices_since(self, count: int) -> tuple[int, tuple[Notice, ...]]:
        """Return how many were heard so far, and those after so many."""
        now = self.count
        kept = self.notices
        return now, kept[len(kept) - min(now - count, len(kept)) :]

    def listen(self) -> None:
        """Hear refreshes and alerts from now on, until ``close``."""
        self._listener = threading.Thread(target=self._hear, name="notices", daemon=True)
        self._listener.start()

    def _hear(self) -> None:
        while not self._ended.is_set():
            try:
                for notice in hear_notices(self._trickle, self._ended.is_set):
                    self.deaf = ""
                    self._notices.append(notice)
                    self.count += 1
                    self.heard()
            except TrickleError as error:
                self.deaf = hide_passwords(f"nothing is heard: {error}. {error.hint}")
                self._ended.wait(_PAUSE)

    def log(self) -> tuple[str, ...]:
        """Return the last lines of the log file, or why there are none."""
        if self._log is None:
            return ()
        try:
            with self._log.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(file.tell() - _LOG_BYTES, 0))
                found = file.read(_LOG_BYTES).decode(errors="replace").splitlines()
        except OSError as error:
            return (f"it cannot be read: {error.strerror}",)
        return tuple(found[-_LOG_LINES:])

    @property
    def log_path(self) -> str:
        """The log file that was named; empty if none was."""
        return "" if self._log is None else str(self._log)

    def close(self) -> None:
        """Hear nothing more."""
        self._ended.set()
        if self._listener is not None:
            self._listener.join(timeout=3)
