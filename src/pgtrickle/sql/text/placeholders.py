"""Marks in SQL text that are filled in later, told apart from the same words inside quotes.

A literal or an identifier may contain anything, even text like a mark.  So marks count only
outside quotes, and all are filled in one pass: inserted text is never searched for marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

# Strings with backslash escapes, plain strings, quoted names: for PostgreSQL and for Spark.
_QUOTED = {
    "postgres": r"""(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*\"""",
    "spark": r"""'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`""",
}


def fill(sql: str, mark: str, value: Callable[[re.Match[str]], str], *, spark: bool = False) -> str:
    r"""Replace the matches of the regular expression ``mark`` outside quotes.

    >>> print(fill("SELECT ':x', `:x` FROM t WHERE :x", ":x", lambda match: "':x'", spark=True))
    SELECT ':x', `:x` FROM t WHERE ':x'
    >>> print(fill(r"SELECT E'\':x' WHERE :x", ":x", lambda match: "a"))
    SELECT E'\':x' WHERE a
    """

    def replace(match: re.Match[str]) -> str:
        return match.group() if match.group("quoted") is not None else value(match)

    return _pattern(mark, "spark" if spark else "postgres").sub(replace, sql)


@lru_cache(maxsize=64)
def _pattern(mark: str, dialect: str) -> re.Pattern[str]:
    return re.compile(f"(?P<quoted>{_QUOTED[dialect]})|(?:{mark})", re.DOTALL)


def find(sql: str, mark: str) -> list[re.Match[str]]:
    """Return the matches of the regular expression ``mark`` outside quotes.

    >>> [match.group("name") for match in find("SELECT ':a' WHERE :b", r":(?P<name>[a-z])")]
    ['b']
    """
    found: list[re.Match[str]] = []

    def remember(match: re.Match[str]) -> str:
        found.append(match)
        return match.group()

    fill(sql, mark, remember)
    return found
