"""Refusing a construct by name, and showing where the user's own text uses it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgtrickle.errors import UnsupportedQueryError
from pgtrickle.sql.text.lexer import placed_tokens

_NAME = re.compile(r'"(?:[^"]|"")+"|[A-Za-z_]\w*')
_ANOTHER_MODE = "refresh_mode = 'FULL', or 'AUTO'"


class Refusal(Exception):  # noqa: N818 - a signal inside the compiler, not an error of its own
    """The compiler cannot derive a delta for ``construct``; ``keywords`` locate it in the text."""

    def __init__(self, construct: str, *keywords: str, hint: str = "") -> None:
        super().__init__(construct)
        self.construct = construct
        self.keywords = keywords
        self.hint = hint


def unsupported(refusal: Refusal, user_sql: str) -> UnsupportedQueryError:
    """Turn a refusal into an error for the user, with the place in their SQL underlined."""
    hint = refusal.hint or f"Create the stream table with {_ANOTHER_MODE} to choose by itself."
    if "FULL" not in hint:
        hint = f"{hint} {_ANOTHER_MODE} works without that."
    return UnsupportedQueryError(
        f"no delta rule for {refusal.construct}",
        detail=underline(user_sql, *refusal.keywords, *_NAME.findall(refusal.construct))
        or _underline_begin(user_sql),
        hint=hint,
    )


def underline(sql: str, *keywords: str) -> str:
    r"""Show the line of ``sql`` that holds the first of ``keywords``, marked from below.

    A keyword may be several words; letter case does not matter.

    >>> print(underline("SELECT a\nFROM t LEFT JOIN u ON true", "left"))
    line 2: FROM t LEFT JOIN u ON true
                   ^^^^
    >>> underline("SELECT 1", "over")
    ''
    """
    places = list(placed_tokens(sql))
    words = [_word(sql[start:end]) for _, start, end in places]
    for keyword in keywords:
        wanted = [_word(keyword[start:end]) for _, start, end in placed_tokens(keyword)]
        if wanted and (at := _find(words, wanted)) is not None:
            return _mark(sql, places[at][1], places[at + len(wanted) - 1][2])
    return ""


def _find(words: Sequence[str], wanted: Sequence[str]) -> int | None:
    for at, word in enumerate(words):
        if word == wanted[0] and words[at : at + len(wanted)] == wanted:
            return at
    return None


def _word(token: str) -> str:
    """Return a word as it is compared: without the quotes of a name, and letter case."""
    return (token[1:-1].replace('""', '"') if token.startswith('"') else token).upper()


def _underline_begin(sql: str) -> str:
    """Underline the first word, for what has no place of its own in the text."""
    return next((_mark(sql, start, end) for _, start, end in placed_tokens(sql)), "")


def _mark(sql: str, start: int, end: int) -> str:
    line_start = sql.rfind("\n", 0, start) + 1
    line_end = sql.find("\n", start)
    line = sql[line_start : len(sql) if line_end < 0 else line_end]
    prefix = f"line {sql.count(chr(10), 0, start) + 1}: "
    width = max(1, min(end - start, len(line) - (start - line_start)))
    return f"{prefix}{line}\n{' ' * (len(prefix) + start - line_start)}{'^' * width}"
