"""Comparisons, alone or against the elements of an array, as PostgreSQL prints IN.

NaN equals itself and is greater than everything, and minus zero equals zero, on both sides.  Spark
compares text by its bytes, which is PostgreSQL's order only under the collation C, but equality
under every deterministic one.
"""

from __future__ import annotations

from sqlglot import exp

from pgtrickle.model.sql_type import CANONICAL_TEXT
from pgtrickle.sql.translate.dates import moments
from pgtrickle.sql.translate.term import (
    EXPLICIT_C,
    FLOATS,
    MOMENTS,
    NULL,
    NUMBERS,
    TEXTS,
    Rule,
    Term,
    Visit,
    bool_term,
    collations_of,
    is_deterministic,
    let,
    refuse,
    refuse_types,
)

SYMBOLS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# Types whose carried text has the same equality and order as PostgreSQL's values.
_CARRIED_AS_TEXT = frozenset({"uuid", "bytea", "time"})


def compare(node: exp.Expr, symbol: str, left: Term, right: Term) -> Term:
    """Compare two terms; ``node`` is named if there is no faithful translation."""
    left, right = _comparable(node, left, right, ordered=symbol not in {"=", "<>", "<=>"})
    return bool_term(f"({left.sql} {symbol} {right.sql})")


def is_ordered(*terms: Term) -> bool:
    """Tell whether Spark orders values of one type as PostgreSQL does."""
    bases = {term.base for term in terms} - {NULL}
    if bases <= TEXTS:
        collations = collations_of(*terms)
        return bool(collations) and collations <= {"C", EXPLICIT_C}
    return bases <= {*NUMBERS, *MOMENTS, "bool", *_CARRIED_AS_TEXT}


def array_elements(node: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """Return ANY or ALL and the elements, if an operand is such an array.

    >>> from sqlglot import parse_one
    >>> word, elements = array_elements(parse_one("ANY(ARRAY[1, 2])", dialect="postgres"))
    >>> word, [element.sql() for element in elements]
    ('ANY', ['1', '2'])
    """
    if isinstance(node, exp.Any | exp.All):
        word, array = node.key.upper(), node.this
    elif isinstance(node, exp.Anonymous) and str(node.this).upper() in {"ANY", "ALL"}:
        word, array = str(node.this).upper(), node.expressions[0]
    else:
        return None
    array = array.unnest()
    element_type = None
    if isinstance(array, exp.Cast) and array.to.is_type(exp.DType.ARRAY):
        element_type, array = array.to.expressions[0], array.this.unnest()
    if not isinstance(array, exp.Array):
        raise refuse(node)
    if element_type is None:
        return word, array.expressions
    return word, [
        exp.Cast(this=element.copy(), to=element_type.copy()) for element in array.expressions
    ]


def against_array(word: str, terms: list[Term], node: exp.Expr, symbol: str, left: Term) -> Term:
    """Compare a term with every element: ANY of them, or ALL, has to hold."""
    if not terms:
        return bool_term("FALSE" if word == "ANY" else "TRUE")
    exact = left.base not in FLOATS  # a long IN list tells minus zero from zero
    if exact and (word, symbol) in {("ANY", "="), ("ALL", "<>")}:
        sides = [_comparable(node, left, term, ordered=False) for term in terms]
        if len({one.sql for one, _ in sides}) == 1:
            listed = ", ".join(other.sql for _, other in sides)
            negated = "NOT " if word == "ALL" else ""
            return bool_term(f"({sides[0][0].sql} {negated}IN ({listed}))")

    def body(value: str) -> str:
        named = Term(
            value,
            left.base,
            collations=left.collations,
            is_column=True,
            is_enum=left.is_enum,
        )
        parts = [compare(node, symbol, named, term).sql for term in terms]
        return f"({(' OR ' if word == 'ANY' else ' AND ').join(parts)})"

    return bool_term(let(left, body))


def _compare(node: exp.Expr, visit: Visit) -> Term:
    symbol = SYMBOLS[type(node)]
    if array := array_elements(node.expression):
        word, elements = array
        return against_array(word, [visit(one) for one in elements], node, symbol, visit(node.this))
    return compare(node, symbol, visit(node.this), visit(node.expression))


def _null_safe(node: exp.Expr, visit: Visit) -> Term:
    same = compare(node, "<=>", visit(node.this), visit(node.expression))
    return same if isinstance(node, exp.NullSafeEQ) else bool_term(f"(NOT {same.sql})")


RULES: dict[type[exp.Expr], Rule] = {
    **dict.fromkeys(SYMBOLS, _compare),
    exp.NullSafeEQ: _null_safe,
    exp.NullSafeNEQ: _null_safe,
}


def _comparable(node: exp.Expr, left: Term, right: Term, *, ordered: bool) -> tuple[Term, Term]:
    pair = {left.base, right.base} - {NULL}
    if pair <= set(NUMBERS):
        return left, right
    if pair == {"date", "timestamp"}:
        return moments.as_timestamp(left), moments.as_timestamp(right)
    if pair == {"bpchar"} and not ordered and is_deterministic(left, right):
        return _without_padding(left), _without_padding(right)
    if pair <= TEXTS and (is_ordered(left, right) if ordered else is_deterministic(left, right)):
        return left, right
    if len(pair) == 1 and pair <= {"bool", *MOMENTS, *_CARRIED_AS_TEXT}:
        return left, right
    if len(pair) == 1 and not ordered and pair <= CANONICAL_TEXT:
        return left, right
    if len(pair) == 1 and not ordered and left.is_enum and right.is_enum:
        return left, right
    raise refuse(node) if ordered else refuse_types(pair)


def _without_padding(term: Term) -> Term:
    return Term(f"rtrim({term.sql})", "bpchar", collations=term.collations)
