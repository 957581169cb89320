"""The daemon's log: one line an event to standard error, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum

from pgtrickle.cli.passwords import hide_passwords

_LOGGER = "pgtrickle"
# What every record has; the rest was given by ``extra``.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class LogFormat(Enum):
    """How a line of the log is written."""

    TEXT = "text"
    JSON = "json"


class _Lines(logging.Formatter):
    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        extra = {key: value for key, value in vars(record).items() if key not in _USUAL}
        level, message = record.levelname.lower(), hide_passwords(record.getMessage())
        if self._form is LogFormat.JSON:
            line = {"time": at, "level": level, "logger": record.name, "message": message}
            return json.dumps({**line, **extra}, ensure_ascii=False, default=str)
        listed = "".join(f" {key}={value}" for key, value in extra.items())
        return f"{at} {level} {message}{hide_passwords(listed)}".replace("\n", " ")


@contextmanager
def logging_lines(form: LogFormat | None, level: int = logging.INFO) -> Iterator[None]:
    """Write what the package logs to standard error, for the length of a block, if at all."""
    if form is None:
        yield
        return
    logger, handler = logging.getLogger(_LOGGER), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(form))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
