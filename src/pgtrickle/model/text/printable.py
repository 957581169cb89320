"""Text that is safe for a terminal or a log: control characters are escaped.

Names, queries and messages of the server may contain any text of PostgreSQL.  An
escape sequence could move the cursor, a line end forge a line, a mark of direction show another
name.
"""

from __future__ import annotations

import re

# C0, DEL and C1; marks without width and of direction; separators of lines and paragraphs;
# annotations, tags; halves of surrogate pairs.
_STEERING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\U000e0000-\U000e0fff\ud800-\udfff"
)
_ANYWHERE = re.compile(f"[{_STEERING}]")
_IN_A_LINE = re.compile(f"[\t\n{_STEERING}]")


def printable(text: str) -> str:
    r"""Escape the characters that control a terminal; line ends and tabs stay.

    >>> printable("a\x1b[2Jb\nc \u202ed")
    'a\\x1b[2Jb\nc \\u202ed'
    """
    return _ANYWHERE.sub(_escape, text)


def printable_line(text: str) -> str:
    r"""Escape the characters that control a terminal or end the line.

    >>> printable_line("one\nerror: two")
    'one\\nerror: two'
    """
    return _IN_A_LINE.sub(_escape, text)


def printable_json(document: str) -> str:
    r"""Escape characters that JSON leaves in its strings: DEL, C1, marks of direction.

    Line ends and tabs between values stay; inside strings JSON has escaped them.

    >>> printable_json('{"name": "a\x9b2J"}')
    '{"name": "a\\u009b2J"}'
    """
    return _ANYWHERE.sub(_escape_in_json, document)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _escape_in_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
