"""A translated expression, and the helpers that compose Spark's text."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from pgtrickle.errors import UnsupportedExpressionError

INTEGERS = ("int2", "int4", "int8")
FLOATS = ("float4", "float8")
NUMBERS = (*INTEGERS, "numeric", *FLOATS)
TEXTS = frozenset({"text", "varchar", "name"})
MOMENTS = frozenset({"date", "timestamp", "timestamptz"})
NULL = "null"  # the type of a NULL that has no type yet
MAX_DIGITS = 38
# What an explicit COLLATE "C" leaves: byte order, and no letters but ASCII's.
EXPLICIT_C = 'COLLATE "C"'
NONDETERMINISTIC = "nondeterministic"

SPARK_TYPES = {
    "int2": "SMALLINT",
    "int4": "INT",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "text": "STRING",
    "varchar": "STRING",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP_LTZ",
}
_HINT = "Move the expression into one table, or create the stream table with refresh_mode = 'FULL'."


@dataclass(frozen=True, slots=True)
class Term:
    """Spark's text of an expression, and PostgreSQL's knowledge of its value."""

    sql: str
    base: str  # pg_type.typname, or NULL
    # Of a numeric: the digits after the point, as a number or, if only the read knows them, as
    # Spark's text for it; and all digits, where they are known.
    scale: int | str = 0
    precision: int | None = None
    shows_scale: bool = False  # PostgreSQL's value has exactly ``scale`` digits too
    is_quotient: bool = False  # ... or as many as PostgreSQL's rule for quotients gives
    collations: frozenset[str] = frozenset()  # of the columns that a text comes from
    literal: str | None = None  # a constant's value
    is_column: bool = False
    is_enum: bool = False

    @property
    def is_simple(self) -> bool:
        """Whether the text may be repeated at no cost."""
        return self.is_column or self.literal is not None


Visit: TypeAlias = Callable[[exp.Expr], Term]
Rule: TypeAlias = Callable[[exp.Expr, Visit], Term]


def refuse(node: exp.Expr) -> UnsupportedExpressionError:
    """Make the error that names an expression without a faithful translation."""
    return UnsupportedExpressionError(
        f"no faithful translation for {node.sql(dialect='postgres')}", hint=_HINT
    )


def refuse_types(bases: Collection[str]) -> UnsupportedExpressionError:
    """Make the error that names types of which Spark does not know what is equal.

    The expression may be one that nobody wrote, such as the keys of an outer join.

    >>> str(refuse_types({"shop._mood"}))
    'values of type shop.mood[] cannot be compared across tables'
    """
    names = sorted(map(_readable, bases))
    under = " under a nondeterministic collation" if TEXTS.issuperset(bases) else ""
    return UnsupportedExpressionError(
        f"values of type {' and '.join(names)} cannot be compared across tables{under}", hint=_HINT
    )


def _readable(base: str) -> str:
    """Write the name of a type of arrays as people do."""
    schema, dot, name = base.rpartition(".")
    return f"{schema}{dot}{name[1:]}[]" if name.startswith("_") else base


def bool_term(sql: str) -> Term:
    """Make a term of a condition."""
    return Term(sql, "bool")


def text_term(sql: str, *sources: Term) -> Term:
    """Make a text whose collation comes from its parts."""
    return Term(sql, "text", collations=collations_of(*sources))


def collations_of(*terms: Term) -> frozenset[str]:
    """Return the collations that compete for a comparison; an explicit one wins."""
    found = frozenset().union(*(term.collations for term in terms))
    return frozenset({EXPLICIT_C}) if EXPLICIT_C in found else found


def is_deterministic(*terms: Term) -> bool:
    """Tell whether texts are equal only if their bytes are."""
    return NONDETERMINISTIC not in collations_of(*terms)


def let(term: Term, body: Callable[[str], str], name: str = "__let") -> str:
    """Write an expression that uses a value several times but computes it once.

    >>> let(Term("`a`", "int4", is_column=True), lambda a: f"({a} * {a})")
    '(`a` * `a`)'
    >>> let(Term("(`a` + 1)", "int4"), lambda a: f"({a} * {a})")
    'transform(array((`a` + 1)), `__let` -> (`__let` * `__let`))[0]'
    """
    if term.is_simple:
        return body(term.sql)
    quoted = f"`{name}`"
    return f"transform(array({term.sql}), {quoted} -> {body(quoted)})[0]"


def let_both(left: Term, right: Term, body: Callable[[str, str], str]) -> str:
    """Write an expression that uses two values several times but computes each once."""
    return let(left, lambda one: let(right, lambda two: body(one, two), "__right"), "__left")


def fail(message: str) -> str:
    """Write an expression that raises an error.

    >>> fail("value out of range")
    "raise_error('value out of range')"
    """
    return f"raise_error({spark_string(message)})"


def spark_string(value: str) -> str:
    r"""Quote a text for Spark.

    A brace would be read as the name of an input, and a comment as the place of a hint.

    >>> spark_string("it's {a}")
    "'it\\'s \\u007Ba}'"
    """
    for plain, escaped in (
        ("\\", "\\\\"),
        ("'", "\\'"),
        ("{", "\\u007B"),
        ("/*", "\\u002F*"),
    ):
        value = value.replace(plain, escaped)
    return f"'{value}'"


def require(node: exp.Expr, term: Term, *bases: str) -> Term:
    """Refuse ``node`` unless the term has one of the types, or is NULL."""
    if term.base not in {*bases, NULL}:
        raise refuse(node)
    return term


def require_text(node: exp.Expr, term: Term) -> Term:
    """Refuse ``node`` unless the term is a text of which equal values have equal bytes."""
    if term.base not in {*TEXTS, NULL} or not is_deterministic(term):
        raise refuse(node)
    return term


def wider(left: str, right: str) -> str:
    """Return the wider of two types of number."""
    return max(left, right, key=NUMBERS.index)
