"""Names of relations, quoted as PostgreSQL quotes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgtrickle.errors import NameNotUsableError
from pgtrickle.model.text.lengths import LONGEST_NAME, shorten

_MAX_IDENTIFIER_BYTES = 63
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\s*')


def quote_identifier(name: str) -> str:
    """Quote one identifier, always.

    >>> quote_identifier('say "hi" now')
    '"say ""hi"" now"'
    """
    return '"' + name.replace('"', '""') + '"'


def plain_identifier(name: str) -> str:
    """Quote one identifier if necessary; a keyword is not quoted.

    >>> plain_identifier("total"), plain_identifier("Total")
    ('total', '"Total"')
    """
    return name if re.fullmatch(r"[a-z_][a-z0-9_$]*", name) else quote_identifier(name)


def quote_literal(text: str) -> str:
    r"""Quote one string literal, valid under any ``standard_conforming_strings``.

    >>> quote_literal("it's")
    "'it''s'"
    >>> quote_literal("a\\b")
    "E'a\\\\b'"
    """
    quoted = "'" + text.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


@dataclass(frozen=True, slots=True, order=True)
class QualifiedName:
    """A relation's schema and name, exactly as the catalog stores them."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str, default_schema: str = "public") -> QualifiedName:
        """Read a name as PostgreSQL would: unquoted parts fold to lower case.

        >>> QualifiedName.parse("Sales")
        QualifiedName(schema='public', name='sales')
        >>> QualifiedName.parse('app."Daily Sales"')
        QualifiedName(schema='app', name='Daily Sales')
        """
        if len(text) > LONGEST_NAME:
            raise NameNotUsableError(
                f'"{shorten(text)}" is too long for a name',
                hint="Write schema.name; each has 63 bytes at most.",
            )
        parts = _split(text)
        if not 1 <= len(parts) <= 2:
            raise NameNotUsableError(
                f'"{text}" is not a name of the form schema.name',
                hint="Put double quotes around a part that holds dots, spaces or capitals.",
            )
        if _NO_TEXT.search(text):
            raise NameNotUsableError(
                f"the name {text!a} contains a character that is not text",
                hint="Leave out NUL characters and halves of surrogate pairs.",
            )
        for part in parts:
            if len(part.encode()) > _MAX_IDENTIFIER_BYTES:
                raise NameNotUsableError(
                    f'the name "{part}" is longer than {_MAX_IDENTIFIER_BYTES} bytes',
                    hint="PostgreSQL would cut it short; choose a shorter name.",
                )
        return cls(*parts) if len(parts) == 2 else cls(default_schema, parts[0])

    @property
    def sql(self) -> str:
        """The name as SQL text.

        >>> QualifiedName("app", "t").sql
        '"app"."t"'
        """
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"

    def __str__(self) -> str:
        return f"{plain_identifier(self.schema)}.{plain_identifier(self.name)}"


def _split(text: str) -> list[str]:
    parts: list[str] = []
    position = 0
    while match := _PART.match(text, position):
        quoted, plain = match.groups()
        parts.append(quoted.replace('""', '"') if quoted is not None else plain.lower())
        position = match.end()
        if position == len(text):
            return parts
        if text[position] != ".":
            break
        position += 1
    return []
