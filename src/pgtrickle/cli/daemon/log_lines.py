"""The daemon's log: one line an event to standard error, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from enum import Enum

from pgtrickle.cli.daemon.json_lines import json_lines
from pgtrickle.model.text.passwords import hide_passwords
from pgtrickle.model.text.printable import printable_json, printable_line

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
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            extra["error"] = f"{type(error).__name__}: {error}"
            if self._form is LogFormat.JSON:
                extra["traceback"] = "".join(traceback.format_exception(error))
        level, message = record.levelname.lower(), hide_passwords(record.getMessage())
        if self._form is LogFormat.JSON:
            line = {"time": at, "level": level, "logger": record.name, "message": message}
            hidden = {key: _hide(value) for key, value in extra.items()}
            return printable_json(
                json.dumps({**line, **hidden}, ensure_ascii=False, default=_as_text)
            )
        listed = "".join(f" {key}={value}" for key, value in extra.items())
        return printable_line(f"{at} {level} {message}{hide_passwords(listed)}")


def _hide(value: object) -> object:
    match value:
        case str():
            return hide_passwords(value)
        case dict():
            return {str(key): _hide(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_hide(one) for one in value]
        case _:
            return value


def _as_text(value: object) -> str:
    return hide_passwords(str(value))


@contextmanager
def logging_lines(form: LogFormat | None, level: int = logging.INFO) -> Iterator[None]:
    """Write what is logged to standard error, for the length of a block, if at all.

    Of libraries that is what they warn of.  As JSON, whatever else comes to the standard streams is
    a document on each line, too.
    """
    if form is None:
        yield
        return
    with json_lines() if form is LogFormat.JSON else nullcontext():
        logger, root = logging.getLogger(_LOGGER), logging.getLogger()
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Lines(form))
        before = logger.level
        root.addHandler(handler)
        logger.setLevel(level)
        try:
            yield
        finally:
            root.removeHandler(handler)
            logger.setLevel(before)
