"""Standard output and standard error on which every line is a JSON document, whoever writes it.

A log that is read by a program must not have lines that it cannot read: what a library prints, a
traceback of a thread, a warning at the end.  So whatever is no document becomes the message of one.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from pgtrickle.model.text.passwords import hide_passwords
from pgtrickle.model.text.printable import printable_json

logger = logging.getLogger("pgtrickle")


class JsonLines:
    """A stream that passes JSON documents on, one on each line, and makes one of any other line."""

    def __init__(self, stream: TextIO, name: str, level: str) -> None:
        self._stream = stream
        self._name = name
        self._level = level
        self._rest = threading.local()  # of a line, by whoever is about to write the rest
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        """Take a part of a line, or several lines."""
        *lines, rest = (getattr(self._rest, "text", "") + text).split("\n")
        self._rest.text = rest
        documents = self._documents([line for line in lines if line.strip()])
        if documents:
            with self._lock:
                self._stream.write("".join(f"{one}\n" for one in documents))
                self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Do nothing: a whole line is written at once, and the rest is none yet."""

    def isatty(self) -> bool:
        """Tell that nobody watches, so that nothing is coloured or drawn over."""
        return False

    def _documents(self, lines: list[str]) -> list[str]:
        """Make documents of lines; those that were written at once and are none become one."""
        found: list[str] = []
        for is_document, some in itertools.groupby(lines, _is_document):
            if is_document:
                found += some
            else:
                found.append(_document(self._level, self._name, "\n".join(some)))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _is_document(line: str) -> bool:
    if not line.startswith("{"):
        return False
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _document(level: str, name: str, message: str) -> str:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    found = {"time": at, "level": level, "logger": name, "message": hide_passwords(message)}
    return printable_json(json.dumps(found, ensure_ascii=False))


@contextmanager
def json_lines() -> Iterator[None]:
    """Let nothing but JSON documents onto the standard streams, for the length of a block."""
    before = sys.stdout, sys.stderr
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    sys.stdout = JsonLines(sys.stdout, "pgtrickle.output", "info")
    sys.stderr = JsonLines(sys.stderr, "pgtrickle.output", "info")
    sys.excepthook = lambda _, error, __: _log(error, "an error was not caught")
    threading.excepthook = lambda met: _log(met.exc_value, "an error ended a thread")
    sys.unraisablehook = lambda met: _log(met.exc_value, "an error could not be raised")
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
        sys.stdout, sys.stderr = before


def _log(error: BaseException | None, message: str) -> None:
    """Write an error with its traceback as one line."""
    lines = traceback.format_exception(error) if error is not None else []
    logger.error(message, extra={"traceback": "".join(lines)})
