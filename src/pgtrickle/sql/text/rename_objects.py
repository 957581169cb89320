"""Rename objects in the text of a query, and change nothing else in it.

It is meant for PostgreSQL's rendering, in which every user's name is qualified; it is also tried on
the user's text.  Only PostgreSQL can tell whether the text still means the same: the caller
binds the result and compares its objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pgtrickle.model.text.names import QualifiedName, plain_identifier, quote_identifier
from pgtrickle.sql.text.lexer import placed_tokens


class Role(Enum):
    """The role of a name in a query."""

    RELATION = "relation"
    FUNCTION = "function"
    OPERATOR = "operator"
    TYPE = "type"
    COLLATION = "collation"


Renames = Mapping[tuple[Role, QualifiedName], QualifiedName]

_ENDS_FROM = frozenset(
    {"where", "group", "having", "window", "order", "limit", "offset", "fetch", "for"}
    | {"union", "intersect", "except"}
)
_NO_ALIAS = _ENDS_FROM | frozenset(
    {"join", "inner", "left", "right", "full", "cross", "natural", "on", "using", "tablesample"}
)


def rename_in_query(sql: str, renames: Renames, *, by_hand: bool = False) -> str:
    """Return the query with other names; a table keeps the old one as its alias.

    In a text that is written ``by_hand``, tables may lack their schema, whereas
    PostgreSQL prints only CTEs without one; and names are quoted only if necessary.

    >>> old, new = QualifiedName("shop", "orders"), QualifiedName("shop", "sales")
    >>> moved = {(Role.RELATION, old): new}
    >>> rename_in_query("SELECT orders.id FROM shop.orders, shop.orders o", moved)
    'SELECT orders.id FROM "shop"."sales" "orders", "shop"."sales" o'
    >>> rename_in_query("SELECT shop.orders FROM orders shop", moved, by_hand=True)
    'SELECT shop.orders FROM shop.sales shop'
    """
    text = sql
    for start, end, written in reversed(list(_edits(_read(sql), renames, by_hand))):
        text = text[:start] + written + text[end:]
    return text


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def name(self) -> str | None:
        """The token as an identifier, or None."""
        if self.kind == "word":
            return self.text.lower()
        if self.kind == "text" and self.text.startswith('"'):
            return self.text[1:-1].replace('""', '"')
        return None

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else self.text


def _read(sql: str) -> list[_Token]:
    return [_Token(kind, sql[start:end], start, end) for kind, start, end in placed_tokens(sql)]


@dataclass(slots=True)
class _Level:
    """The state of the text between two parentheses."""

    query: bool = False  # a SELECT, or a part of its FROM
    in_from: bool = False
    expects: bool = False  # that the next name is a table's


@dataclass(slots=True)
class _Places:
    """Follows a text and tells where the name of a table can occur."""

    levels: list[_Level] = field(default_factory=lambda: [_Level()])

    def expects_table(self) -> bool:
        return self.levels[-1].expects

    def pass_by(self, token: _Token, before: str, after: str) -> None:
        level, word = self.levels[-1], token.word
        if word == "(":
            nested = level.expects and after not in {"select", "with", "values"}
            level.expects = False
            self.levels.append(_Level(nested, nested, nested))
        elif word == ")" and len(self.levels) > 1:
            self.levels.pop()
        elif word == "select":
            self.levels[-1] = _Level(query=True)
        elif word == "from" and level.query and before != "distinct":
            level.in_from = level.expects = True
        elif level.in_from and word in {"join", ","}:
            level.expects = True
        elif level.in_from and word in _ENDS_FROM:
            level.in_from = level.expects = False
        elif word not in {"only", "lateral"}:
            level.expects = False


def _edits(
    tokens: Sequence[_Token],
    renames: Renames,
    by_hand: bool,  # noqa: FBT001 - passed on
) -> Iterator[tuple[int, int, str]]:
    """Yield the replacements with their positions, in order."""
    places = _Places()
    write = plain_identifier if by_hand else quote_identifier
    bare: dict[tuple[Role, QualifiedName], QualifiedName] = {
        (role, QualifiedName("", old.name)): new
        for (role, old), new in renames.items()
        if role is Role.RELATION and by_hand
    }
    at = 0
    while at < len(tokens):
        before = [one.word for one in tokens[max(at - 2, 0) : at]]
        found = _name_at(tokens, at)
        after = tokens[at + 1].word if at + 1 < len(tokens) else ""
        if found is None or (before and before[-1] == "."):
            places.pass_by(tokens[at], before[-1] if before else "", after)
            at += 1
            continue
        name, length = found
        rest = tokens[at + length :]
        table = places.expects_table() and not _is(rest, "(")
        roles = _roles(before, rest, table=table)
        known = {**bare, **renames} if table else renames
        new = next((known[role, name] for role in roles if (role, name) in known), None)
        if new is not None:
            last = new.name if Role.OPERATOR in roles else write(new.name)
            written = f"{write(new.schema)}.{last}"
            if table and new.name != name.name and not _has_alias(rest):
                written += f" {write(name.name)}"
            yield tokens[at].start, tokens[at + length - 1].end, written
        # A keyword is a name too, as far as the lexer can tell.
        for one in tokens[at : at + length]:
            places.pass_by(one, before[-1] if before else "", after)
        at += length


def _name_at(tokens: Sequence[_Token], at: int) -> tuple[QualifiedName, int] | None:
    """Return the name that begins here, with or without a schema, and its number of tokens."""
    first = tokens[at].name
    if first is None:
        return None
    if at + 2 < len(tokens) and tokens[at + 1].text == ".":
        second = tokens[at + 2].name
        if second is not None:
            return QualifiedName(first, second), 3
        signs = at + 2
        while signs < len(tokens) and tokens[signs].text in set("+-*/<>=~!@#%^&|`?"):
            signs += 1
        operator = "".join(one.text for one in tokens[at + 2 : signs])
        if operator and signs < len(tokens) and tokens[signs].text == ")":
            return QualifiedName(first, operator), signs - at
    return QualifiedName("", first), 1


def _roles(before: Sequence[str], rest: Sequence[_Token], *, table: bool) -> Collection[Role]:
    if table:
        return (Role.RELATION,)
    if before == [":", ":"]:
        return (Role.TYPE, Role.RELATION)  # a table is a type, too
    if before[-1:] == ["collate"]:
        return (Role.COLLATION,)
    if before == ["operator", "("]:
        return (Role.OPERATOR,)
    return (Role.FUNCTION,) if _is(rest, "(") else ()


def _is(rest: Sequence[_Token], text: str) -> bool:
    return bool(rest) and rest[0].text == text


def _has_alias(rest: Sequence[_Token]) -> bool:
    after = rest[1:] if _is(rest, "*") else rest
    if not after or after[0].name is None:
        return False
    return after[0].kind != "word" or after[0].word not in _NO_ALIAS
