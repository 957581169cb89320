r"""Lists, structs and maps that DuckDB keeps in the catalog, as text.

DuckDB 1.5.5 writes them in two notations.  A list or a map, with all that is in it, is written as
a cast to VARCHAR does: ``[a, 'b,c', NULL, 'it\'s']``, ``{k=1}``, in quotes only where needed.  A
struct that is in no list or map is written as a literal of SQL: ``{'s': 'it''s', 'd':
CAST('2026-01-02' AS VARCHAR)}``, every text in quotes.

DuckDB itself reads both as the first.  So it loses the quote of ``'it''s'``, and fails at a date in
a struct.  Here both are read as written.  Only a backslash in quotes, within a struct,
is ambiguous between the two, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.reader.columns import ReadColumn

_BARE = re.compile(r"[^,=\[\]{}']*")  # a text with any of these is in quotes
_ESCAPED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_DOUBLED = re.compile(r"'((?:[^']|'')*)'")
_CAST = re.compile(r"CAST\('([^']*)' AS [A-Z ]+\)")
_BYTE = re.compile(rb"\\x([0-9A-F]{2})")

ParseScalar = Callable[[ReadColumn, str], Any]


def parse_nested(column: ReadColumn, text: str, parse_scalar: ParseScalar) -> Any:
    """Return a value of a nested column: lists, structs as dicts, maps as lists of pairs.

    Any other text raises ValueError.

    >>> parts = (ReadColumn(2, "element", "varchar", None),)
    >>> parse_nested(ReadColumn(1, "l", "list", None, parts), "[a, NULL, 'b,c']", lambda _, t: t)
    ['a', None, 'b,c']
    """
    nested = _Nested(text, parse_scalar)
    value = nested.read(column, literal=column.kind == "struct")
    if nested.position != len(text):
        raise ValueError(f"{text} goes on after its end")
    return value


def parse_bytes(text: str) -> bytes:
    r"""Return the bytes of a blob that DuckDB shows as text.

    >>> parse_bytes(r"a\x00\x5C")
    b'a\x00\\'
    """
    return _BYTE.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode("ascii"))


class _Nested:
    """A text that is read from left to right, by the types of the column."""

    def __init__(self, text: str, parse_scalar: ParseScalar) -> None:
        self._text = text
        self._parse_scalar = parse_scalar
        self.position = 0

    def read(self, column: ReadColumn, *, literal: bool) -> Any:
        """Read one value; ``literal`` is the notation of structs outside lists and maps."""
        if column.parts and self._text.startswith("NULL", self.position):
            self.position += len("NULL")
            return None
        if column.kind == "list":
            return self._read_all("[", "]", lambda _: self.read(column.parts[0], literal=False))
        if column.kind == "map":
            return self._read_all("{", "}", lambda _: self._read_entry(column))
        if column.kind == "struct":
            fields = self._read_all(
                "{", "}", lambda number: self._read_field(column, number, literal=literal)
            )
            if len(fields) != len(column.parts):
                raise ValueError(f'{self._text} has not all fields of "{column.name}"')
            return dict(fields)
        text = self._read_literal(column) if literal else self._read_text()
        return None if text is None else self._parse_scalar(column, text)

    def _read_all(self, start: str, end: str, read: Callable[[int], Any]) -> list[Any]:
        found: list[Any] = []
        self._take(start)
        while not self._text.startswith(end, self.position):
            if found:
                self._take(", ")
            found.append(read(len(found)))
        self._take(end)
        return found

    def _read_entry(self, column: ReadColumn) -> tuple[Any, Any]:
        key, value = column.parts
        read = self.read(key, literal=False)
        self._take("=")
        return read, self.read(value, literal=False)

    def _read_field(self, column: ReadColumn, number: int, *, literal: bool) -> tuple[str, Any]:
        if number >= len(column.parts):
            raise ValueError(f'{self._text} has more fields than "{column.name}"')
        part = column.parts[number]
        escaped = part.name.replace("\\", "\\\\").replace("'", "\\'")
        doubled = part.name.replace("'", "''")
        self._take(f"'{doubled if literal else escaped}': ")
        return part.name, self.read(part, literal=literal)

    def _read_text(self) -> str | None:
        """Read a text as a cast writes it; a quoted NULL is a text."""
        if quoted := self._match(_ESCAPED):
            return re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL)
        return self._read_bare()

    def _read_literal(self, column: ReadColumn) -> str | None:
        """Read a text as SQL writes it."""
        if cast := self._match(_CAST):
            return str(cast[1])
        quoted = self._match(_DOUBLED)
        if quoted is None:
            return self._read_bare()
        if "\\" in quoted[1]:
            raise LakeReadError(
                f'a text with a backslash, in the field "{column.name}" of a struct, is in'
                " the catalog in an ambiguous notation",
                hint="DuckDB would read another text than it wrote. Write it again with the option"
                " data_inlining_row_limit = 0, or exclude the column with the option columns.",
            )
        return str(quoted[1]).replace("''", "'")

    def _read_bare(self) -> str | None:
        bare = self._match(_BARE)
        text = "" if bare is None else str(bare[0])
        if not text:
            raise ValueError(f"{self._text} lacks a value")
        return None if text == "NULL" else text

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def _take(self, wanted: str) -> None:
        if not self._text.startswith(wanted, self.position):
            raise ValueError(f"{self._text} is not what DuckDB writes")
        self.position += len(wanted)
