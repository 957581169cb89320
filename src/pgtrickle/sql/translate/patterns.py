"""LIKE, ILIKE and regular expressions.

Both sides escape with a backslash in LIKE, but Spark refuses one before an ordinary character.  A
regular expression is translated if it is a constant in the part of the language that PostgreSQL and
Java share.  Ignoring case depends on the locale, so it needs an explicit COLLATE "C".
"""

from __future__ import annotations

import re

from sqlglot import exp

from pgtrickle.sql.translate.comparison import array_elements
from pgtrickle.sql.translate.term import (
    EXPLICIT_C,
    Rule,
    Term,
    Visit,
    bool_term,
    collations_of,
    refuse,
    require_text,
    spark_string,
)
from pgtrickle.sql.translate.text import fold_ascii

# Removes the backslash before an ordinary character and keeps the others.
_UNESCAPE = r"'(\\\\[%_\\\\])|\\\\([\\s\\S])', '$1$2'"
# One atom of the shared language and what may follow it.
_ORDINARY = r"[A-Za-z0-9 _\-:;,@#%&=<>\"'/~`!]"
_ESCAPED = r"\\[.*+?()|\[\]{}^$\\/\-]"
_RANGE = r"(?:a-z|A-Z|0-9|[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_@%,.+ ])"
_BRACKET = rf"\[\^?{_RANGE}+\]"
_QUANTIFIER = r"(?:[*+?]|\{[0-9]{1,2}\}|\{[0-9]{1,2},\}|\{[0-9]{1,2},[0-9]{1,2}\})?"
_ATOM = re.compile(rf"(?:{_ORDINARY}|{_ESCAPED}|{_BRACKET}|\.){_QUANTIFIER}")
_BAD_RANGE = re.compile(r"\{([0-9]+),([0-9]+)\}")


def _like(node: exp.Expr, visit: Visit) -> Term:
    folded = isinstance(node, exp.ILike)
    negated = "NOT " if node.args.get("negate") else ""
    value = _searched(node, visit(node.this))
    if array := array_elements(node.expression):
        word, elements = array
        parts = [_matches(node, value, visit(one), folded=folded) for one in elements]
        # NOT applies to each comparison: x NOT LIKE ALL (...) holds if x is like none of them.
        joined = (" OR " if word == "ANY" else " AND ").join(f"({negated}{part})" for part in parts)
        return bool_term(f"({joined})")
    matched = _matches(node, value, visit(node.expression), folded=folded)
    return bool_term(f"({negated}{matched})")


def _matches(node: exp.Expr, value: Term, pattern: Term, *, folded: bool) -> str:
    require_text(node, pattern)
    if folded and collations_of(value, pattern) != {EXPLICIT_C}:
        raise refuse(node)
    if pattern.literal is None:
        text = f"regexp_replace({pattern.sql}, {_UNESCAPE})"
    else:
        text = spark_string(_normal_pattern(node, pattern.literal))
    if not folded:
        return f"({value.sql} LIKE {text})"
    return f"({fold_ascii(value)} LIKE {fold_ascii(Term(text, 'text'))})"


def _normal_pattern(node: exp.Expr, pattern: str) -> str:
    """Escape only special characters; PostgreSQL allows a backslash anywhere."""
    if re.fullmatch(r"(?:[^\\]|\\[\s\S])*", pattern) is None:
        raise refuse(node)
    return re.sub(r"\\([\s\S])", lambda pair: pair[0] if pair[1] in "%_\\" else pair[1], pattern)


def _regular_expression(node: exp.Expr, visit: Visit) -> Term:
    folded = isinstance(node, exp.RegexpILike)
    value = _searched(node, visit(node.this))
    pattern = visit(node.expression)
    if pattern.literal is None or node.args.get("flag"):
        raise refuse(node)
    if folded and collations_of(value, pattern) != {EXPLICIT_C}:
        raise refuse(node)
    java = to_java(pattern.literal)
    if java is None:
        raise refuse(node)
    flags = "(?si)" if folded else "(?s)"
    return bool_term(f"regexp({value.sql}, {spark_string(flags + java)})")


def to_java(pattern: str) -> str | None:
    r"""Rewrite a regular expression for Java, or return None outside the shared language.

    >>> to_java("^[a-z]+(x|yz)?$")
    '^[a-z]+(?:x|yz)?\\z'
    >>> to_java(r"\d+") is None, to_java("a**") is None, to_java("(a") is None
    (True, True, True)
    """
    if any(int(low) > int(high) for low, high in _BAD_RANGE.findall(pattern)):
        return None
    start = "^" if pattern.startswith("^") else ""
    rest = pattern.removeprefix("^")
    end = r"\z" if rest.endswith("$") and not rest.endswith(r"\$") else ""
    body = _alternatives(rest.removesuffix("$") if end else rest, 0)
    if body is None or body[1] != len(rest) - bool(end):
        return None
    # An anchor belongs to one alternative, so it is kept apart from several only alone.
    if (start or end) and "|" in re.sub(r"\(.*\)|\[[^]]*\]|\\.", "", rest):
        return None
    return f"{start}{body[0]}{end}"


def _alternatives(pattern: str, position: int) -> tuple[str, int] | None:
    """Read alternatives up to the end or a closing parenthesis; none may be empty."""
    written: list[str] = []
    while True:
        before = position
        while position < len(pattern) and pattern[position] not in "|)":
            if pattern[position] == "(":
                part = _group(pattern, position)
            else:
                atom = _ATOM.match(pattern, position)
                part = (atom[0], atom.end()) if atom else None
            if part is None:
                return None
            written.append(part[0])
            position = part[1]
        if position == before:
            return None
        if position == len(pattern) or pattern[position] == ")":
            return "".join(written), position
        written.append("|")
        position += 1


def _group(pattern: str, position: int) -> tuple[str, int] | None:
    inner = _alternatives(pattern, position + 1)
    if inner is None or inner[1] == len(pattern):
        return None
    quantifier = re.compile(_QUANTIFIER).match(pattern, inner[1] + 1)
    end = quantifier.end() if quantifier else inner[1] + 1
    return f"(?:{inner[0]}){pattern[inner[1] + 1 : end]}", end


RULES: dict[type[exp.Expr], Rule] = {
    exp.Like: _like,
    exp.ILike: _like,
    exp.RegexpLike: _regular_expression,
    exp.RegexpILike: _regular_expression,
}


def _searched(node: exp.Expr, term: Term) -> Term:
    return require_text(node, term)
