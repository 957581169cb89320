"""Refusing a construct by name, and showing where the user's own text uses it."""

from __future__ import annotations

from sqlglot import Tokenizer
from sqlglot.errors import TokenError

from pgtrickle.errors import UnsupportedQueryError


class Refusal(Exception):  # noqa: N818 - a signal inside the compiler, not an error of its own
    """The compiler cannot derive a delta for ``construct``; ``keywords`` locate it in the text."""

    def __init__(self, construct: str, *keywords: str, hint: str = "") -> None:
        super().__init__(construct)
        self.construct = construct
        self.keywords = keywords
        self.hint = hint


def unsupported(refusal: Refusal, user_sql: str) -> UnsupportedQueryError:
    """Turn a refusal into an error for the user, with the place in their SQL underlined."""
    return UnsupportedQueryError(
        f"no delta rule for {refusal.construct}",
        detail=underline(user_sql, *refusal.keywords),
        hint=refusal.hint
        or "Create the stream table with refresh_mode = 'FULL', or 'AUTO' to choose by itself.",
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
    try:
        tokens = Tokenizer(dialect="postgres").tokenize(sql)
    except TokenError:
        return ""
    for keyword in filter(None, keywords):
        words = keyword.upper().split()
        for index in range(len(tokens) - len(words) + 1):
            run = tokens[index : index + len(words)]
            text = [word for token in run for word in token.text.upper().split()]
            if text[: len(words)] == words:
                return _mark(sql, run[0].start, run[-1].end + 1)
    return ""


def _mark(sql: str, start: int, end: int) -> str:
    line_start = sql.rfind("\n", 0, start) + 1
    line_end = sql.find("\n", start)
    line = sql[line_start : len(sql) if line_end < 0 else line_end]
    prefix = f"line {sql.count(chr(10), 0, start) + 1}: "
    width = max(1, min(end - start, len(line) - (start - line_start)))
    return f"{prefix}{line}\n{' ' * (len(prefix) + start - line_start)}{'^' * width}"
