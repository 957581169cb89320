"""Cut SQL into words and signs as PostgreSQL's own lexer does, and measure it.

A comment or a string here must be one for PostgreSQL too; otherwise a text could hide code that
PostgreSQL reads.  PostgreSQL ends ``--`` at a carriage return too, nests ``/* */``,
knows escapes in ``E''`` and in its continuation on the next line, and allows ``$`` inside
names.  ``standard_conforming_strings`` is on wherever a text is bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LETTER = r"[A-Za-z_\x80-\U0010ffff]"
_COMMENT = r"--[^\n\r]*"
# The text between the parts of a continued string must contain a line end.
_CONTINUED = rf"(?:[ \t\f\v]|{_COMMENT})*[\n\r](?:[ \t\n\r\f\v]|{_COMMENT}[\n\r])*"
_ESCAPED = r"'[^'\\]*(?:(?:\\.|'')[^'\\]*)*(?:'|\Z)"
_TOKEN = re.compile(
    rf"""
    (?P<skipped>   [ \t\n\r\f\v]+ | {_COMMENT} )
    | (?P<comment> /\* )
    | (?P<escaped> [eE]{_ESCAPED}(?:{_CONTINUED}{_ESCAPED})* )
    | (?P<text>    '[^']*(?:''[^']*)*(?:'|\Z) | "[^"]*(?:""[^"]*)*(?:"|\Z) )
    | (?P<dollar>  \$(?:{_LETTER}(?:{_LETTER}|[0-9])*)?\$ )
    | (?P<word>    {_LETTER}(?:{_LETTER}|[0-9$])* )
    | (?P<number>  [0-9](?:{_LETTER}|[0-9])* )
    | (?P<sign>    . )
    """,
    re.VERBOSE | re.DOTALL,
)
_EDGE_OF_COMMENT = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Size:
    """The measures of a query's text."""

    tokens: int
    depth: int
    joins: int = 0  # the most in one FROM


def tokens(sql: str) -> Iterator[tuple[str, str]]:
    r"""Yield PostgreSQL's tokens with their kind: escaped, text, dollar, word, number or sign.

    >>> [text for _, text in tokens("a--b\rc /* /* */ ' */ '(''' $x$ ( $x$ E'\\'('")]
    ['a', 'c', "'('''", '$x$ ( $x$', "E'\\'('"]
    """
    for kind, start, end in placed_tokens(sql):
        yield kind, sql[start:end]


def placed_tokens(sql: str) -> Iterator[tuple[str, int, int]]:
    """Yield the same with the start and end of each."""
    position = 0
    while match := _TOKEN.match(sql, position):
        position = match.end()
        kind = str(match.lastgroup)
        if kind == "comment":
            position = _end_of_comment(sql, position)
        elif kind == "dollar":
            end = sql.find(match.group(), position)
            position = len(sql) if end < 0 else end + len(match.group())
        if kind not in {"comment", "skipped"}:
            yield kind, match.start(), position


def _end_of_comment(sql: str, position: int) -> int:
    depth = 1
    while depth:
        edge = _EDGE_OF_COMMENT.search(sql, position)
        if edge is None:
            return len(sql)
        depth += 1 if edge.group() == "/*" else -1
        position = edge.end()
    return position


def measure(sql: str, most: int) -> Size:
    """Count the tokens and nesting levels of a query; quoted text does not count.

    Stop after ``most`` tokens plus one.

    >>> measure("SELECT (a + (1)), '(((' FROM t -- ((((", 100)
    Size(tokens=12, depth=2, joins=0)
    >>> measure("SELECT a FROM (t JOIN u USING (a)) JOIN (SELECT a FROM v JOIN w USING (a))", 100)
    Size(tokens=25, depth=2, joins=2)
    """
    count = most_joins = deepest = 0
    levels = [_Level()]
    for kind, text in tokens(sql):
        count += 1
        if count > most:
            break
        word = text.lower() if kind == "word" else text
        if word in {"(", "[", "case"}:
            levels.append(_Level())
            deepest = max(deepest, len(levels) - 1)
        elif word in {")", "]", "end"} and len(levels) > 1:
            left = levels.pop()
            levels[-1].joins += 0 if left.query else left.joins
        elif word == "select":
            levels[-1] = _Level(query=True)
        elif word == "join":
            levels[-1].joins += 1
        most_joins = max(most_joins, levels[-1].joins)
    return Size(count, deepest, most_joins)


@dataclass(slots=True)
class _Level:
    """The state of the text between two parentheses."""

    query: bool = False
    joins: int = 0  # since the last SELECT
