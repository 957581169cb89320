"""The text of a query from wherever the user has it: an argument, a file, standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

_STDIN = "-"


def read_query(given: str | None, file: Path | None) -> str:
    """Return the query; ``given`` is its text, or a dash for standard input."""
    if (given is None) == (file is None):
        raise typer.BadParameter("give the query in one way: as an argument, --file or -")
    if file is not None:
        return decoded(file.read_bytes(), str(file))
    if given == _STDIN:
        return decoded(sys.stdin.buffer.read(), "standard input")
    return given or ""


def decoded(content: bytes, origin: str) -> str:
    """Decode UTF-8 with or without a mark at its beginning."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{origin} is not UTF-8 text") from None
