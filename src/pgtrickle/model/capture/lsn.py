"""Positions in the write-ahead log."""

from __future__ import annotations

import re
from typing import NewType

Lsn = NewType("Lsn", int)

NOWHERE = Lsn(0)  # before every position

_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def parse_lsn(text: str) -> Lsn:
    """Read a position as PostgreSQL prints it; anything else is a ``ValueError``.

    >>> parse_lsn("16/B374D848") == 0x16_B374D848
    True
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a position in the log: {text!r}")
    return Lsn(int(match[1], 16) << 32 | int(match[2], 16))


def format_lsn(lsn: Lsn) -> str:
    """Write a position as PostgreSQL does.

    >>> format_lsn(parse_lsn("16/B374D848"))
    '16/B374D848'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
