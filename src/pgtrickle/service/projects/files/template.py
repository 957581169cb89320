"""Put names and values into the text of a query: ``{{ ref('orders') }}``, ``{{ var('since') }}``.

There are three words and no logic.  A name comes out quoted and with its schema, a value as a
literal, so nothing that a variable holds becomes a part of the statement.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pgtrickle.errors import ProjectFileError
from pgtrickle.model.text.lengths import shorten
from pgtrickle.model.text.names import quote_literal

_CALL = re.compile(r"""\{\{\s*(\w+)\s*\(\s*(?:'([^'\n]*)'|"([^"\n]*)")\s*\)\s*\}\}""")
# What looks like a template of dbt or Jinja; an array such as '{{1,2},{3,4}}' does not.
_LEFT = re.compile(r"\{\{\s*[A-Za-z_]\w*\s*(?:[(.|]|\}\})|\{%-?\s*\w+|\{#")
_HINT = "Write {{ ref('name') }}, {{ source('schema.name') }} or {{ var('name') }}."

Names = Callable[[str], str]  # the SQL of a name


@dataclass(frozen=True, slots=True)
class Words:
    """What the words of a template stand for."""

    ref: Names
    source: Names
    var: Callable[[str], Any]


def render(text: str, words: Words, file: str) -> str:
    """Replace each word of a template.

    >>> words = Words(ref=str.upper, source=str.upper, var={"low": 3, "in": ["a", "b'"]}.get)
    >>> render("SELECT * FROM {{ ref('t') }} WHERE a > {{ var('low') }}", words, "t.sql")
    'SELECT * FROM T WHERE a > 3'
    >>> render("x IN {{ var('in') }}", words, "t.sql")
    "x IN ('a', 'b''')"
    """
    says: Mapping[str, Names] = {
        "ref": words.ref,
        "source": words.source,
        "var": lambda name: literal(words.var(name)),
    }
    parts, end = [], 0
    for found in _CALL.finditer(text):
        _check_rest(text, end, found.start(), file)
        name, given = found[1], found[2] if found[2] is not None else found[3]
        if name not in says:
            raise wrong(file, f'there is no word "{name}" in templates', text, found.start())
        parts += [text[end : found.start()], says[name](given)]
        end = found.end()
    _check_rest(text, end, len(text), file)
    return "".join([*parts, text[end:]])


def put_in(value: object, var: Callable[[str], Any]) -> object:
    """Replace a text that is one ``{{ var('...') }}`` by its value, also within lists.

    >>> put_in(["{{ var('every') }}", "5m"], {"every": "1m"}.get)
    ['1m', '5m']
    """
    if isinstance(value, list):
        return [put_in(one, var) for one in value]
    if isinstance(value, dict):
        return {key: put_in(one, var) for key, one in value.items()}
    if isinstance(value, str) and (found := _CALL.fullmatch(value.strip())) and found[1] == "var":
        return var(found[2] if found[2] is not None else found[3])
    return value


def literal(value: object) -> str:
    """Write a value as SQL.

    >>> [literal(one) for one in (True, None, -1, 2.5, "it's", ["a", 1])]
    ['true', 'NULL', '(-1)', '2.5', "'it''s'", "('a', 1)"]
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int() | float() if not math.isfinite(value):
            return f"{quote_literal(str(value))}::pg_catalog.float8"
        case int() | float():
            return f"({value!r})" if value < 0 else repr(value)
        case list() | tuple():
            return f"({', '.join(map(literal, value)) or 'NULL'})"
        case _:
            return quote_literal(str(value))


def _check_rest(text: str, start: int, end: int, file: str) -> None:
    if found := _LEFT.search(text, start, end):
        raise wrong(file, "this is no word of a template", text, found.start())


def wrong(file: str, what: str, text: str, place: int) -> ProjectFileError:
    """Return an error that names the line."""
    line = text.count("\n", 0, place) + 1
    shown = text[place:].split("\n", 1)[0]
    return ProjectFileError(
        f"{file}: {what}", detail=f"line {line} of the query: {shorten(shown)}", hint=_HINT
    )
