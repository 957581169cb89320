"""The answer to a query, drawn again and again while a demo runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
from rich import box
from rich.table import Table
from rich.text import Text

from pgtrickle.model.text.trusted import trusted

_EVERY_SECONDS = 1.0
_TOLD_EVERY = 5  # looks, where nothing moves


class Board:
    """Looks at the rows from a thread and connection of its own."""

    def __init__(self, dsn: str, title: str, query: str, tell: Callable[[Table], None]) -> None:
        self.title = title
        self.columns: list[str] = []
        self.rows: list[tuple[object, ...]] = []
        self._dsn = dsn
        self._query = query
        self._tell = tell
        self._stop = threading.Event()
        self._error: psycopg.Error | None = None
        self._thread = threading.Thread(target=self._run, name="demo-board", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; raises what ended the thread early."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def drawn(self) -> Table:
        """Return the rows as a table for the terminal."""
        table = Table(title=self.title, box=box.SIMPLE_HEAD, title_justify="left", show_edge=False)
        for place, column in enumerate(self.columns):
            numbers = bool(self.rows) and not isinstance(self.rows[0][place], str)
            table.add_column(column, justify="right" if numbers else "left")
        for row in self.rows:
            table.add_row(*(Text(shown(one)) for one in row))
        return table

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                looks = 0
                while not self._stop.is_set():
                    self._look(connection)
                    if looks % _TOLD_EVERY == 0:
                        self._tell(self.drawn())
                    looks += 1
                    self._stop.wait(_EVERY_SECONDS)
        except psycopg.Error as error:
            self._error = error  # handed to whoever stops it

    def _look(self, connection: psycopg.Connection) -> None:
        cursor = connection.execute(trusted(self._query))
        self.columns = [one.name.replace("_", " ") for one in cursor.description or ()]
        self.rows = cursor.fetchall()


def shown(value: object) -> str:
    """Return a value as people read it.

    >>> shown(12345), shown(None), shown("Ann")
    ('12,345', '', 'Ann')
    """
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)
