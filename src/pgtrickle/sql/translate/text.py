"""Functions of text.

Both sides count characters as code points.  Upper and lower case depend on the locale, so they are
translated only under an explicit COLLATE "C", which knows no letters but ASCII's.  Functions that
search for a text need a deterministic collation, under which equal means equal bytes.
"""

from __future__ import annotations

import string

from sqlglot import exp

from pgtrickle.sql.translate.printed import as_output
from pgtrickle.sql.translate.term import (
    EXPLICIT_C,
    INTEGERS,
    NULL,
    Rule,
    Term,
    Visit,
    bool_term,
    collations_of,
    fail,
    let_both,
    refuse,
    require,
    require_text,
    text_term,
)

_MAX_REPEAT = 10_000


def fold_ascii(term: Term, *, upper: bool = False) -> str:
    """Write a text with its ASCII letters in one case."""
    cases = string.ascii_lowercase, string.ascii_uppercase
    source, target = cases if upper else cases[::-1]
    return f"translate({term.sql}, '{source}', '{target}')"


def _change_case(node: exp.Expr, visit: Visit) -> Term:
    operand = require_text(node, visit(node.this))
    if collations_of(operand) != {EXPLICIT_C}:
        raise refuse(node)
    return text_term(fold_ascii(operand, upper=isinstance(node, exp.Upper)), operand)


def _concatenate(node: exp.Expr, visit: Visit) -> Term:
    """Translate ``||`` of texts; PostgreSQL takes a number or boolean beside a text as its text."""
    left, right = visit(node.this), visit(node.expression)
    if not {left.base, right.base} & {"text", "varchar"}:
        raise refuse(node)
    one, two = (as_output(node, term, true="true", false="false") for term in (left, right))
    return text_term(f"({one} || {two})", left, right)


def _concat(node: exp.Expr, visit: Visit) -> Term:
    terms = [visit(one) for one in node.expressions]
    parts = [f"coalesce({as_output(node, term)}, '')" for term in terms]
    return text_term(f"concat({', '.join(parts)})", *terms)


def _concat_ws(node: exp.Expr, visit: Visit) -> Term:
    separator, *terms = [visit(one) for one in node.expressions]
    require(node, separator, "text", "varchar")
    parts = [separator.sql, *(as_output(node, term) for term in terms)]
    return text_term(f"concat_ws({', '.join(parts)})", separator, *terms)


def _length(node: exp.Expr, visit: Visit) -> Term:
    operand = visit(node.this)
    if operand.base == "bpchar":
        return Term(f"char_length(rtrim({operand.sql}))", "int4")
    return Term(f"char_length({require(node, operand, 'text', 'varchar').sql})", "int4")


def _bytes(node: exp.Expr, visit: Visit) -> Term:
    [argument] = node.expressions
    return Term(f"octet_length({require(node, visit(argument), 'text', 'varchar').sql})", "int4")


def _substring(node: exp.Expr, visit: Visit) -> Term:
    """Cut out characters; positions before the first count, as in the SQL standard."""
    operand = require(node, visit(node.this), "text", "varchar")
    start = _integer(node, node.args.get("start"), visit)
    if node.args.get("length") is None:
        sql = f"substring({operand.sql}, greatest({start.sql}, 1))"
        return text_term(_unless_null(sql, start), operand)
    length = _integer(node, node.args["length"], visit)

    def body(first: str, count: str) -> str:
        # The end is counted in BIGINT: start and length together may exceed an integer.
        shown = f"CAST({first} AS BIGINT) + {count} - greatest({first}, 1)"
        least = f"CAST(least(greatest({shown}, 0), 2147483647) AS INT)"
        refused = fail("negative substring length not allowed")
        return (
            f"(CASE WHEN {count} < 0 AND {first} IS NOT NULL AND {operand.sql} IS NOT NULL"
            f" THEN {refused} WHEN {first} IS NULL OR {count} IS NULL THEN NULL"
            f" ELSE substring({operand.sql}, greatest({first}, 1), {least}) END)"
        )

    return text_term(let_both(start, length, body), operand)


def _left(node: exp.Expr, visit: Visit) -> Term:
    operand, count = _text_and_count(node, visit)

    def body(text: str, number: str) -> str:
        shorter = f"substring({text}, 1, greatest(char_length({text}) + {number}, 0))"
        return f"(CASE WHEN {number} < 0 THEN {shorter} ELSE left({text}, {number}) END)"

    return text_term(let_both(operand, count, body), operand)


def _right(node: exp.Expr, visit: Visit) -> Term:
    operand, count = _text_and_count(node, visit)

    def body(text: str, number: str) -> str:
        kept = f"greatest(char_length({text}) + {number}, 0)"
        # The least integer has no opposite, so PostgreSQL cuts off nothing.
        return (
            f"(CASE WHEN {number} = -2147483648 THEN {text}"
            f" WHEN {number} < 0 THEN right({text}, {kept}) ELSE right({text}, {number}) END)"
        )

    return text_term(let_both(operand, count, body), operand)


def _trim(node: exp.Expr, visit: Visit) -> Term:
    operand = require_text(node, visit(node.this))
    position = node.args.get("position") or "BOTH"
    characters = node.args.get("expression")
    chosen = require_text(node, visit(characters)).sql if characters is not None else "' '"
    return text_term(f"trim({position} {chosen} FROM {operand.sql})", operand)


def _replace(node: exp.Expr, visit: Visit) -> Term:
    return _of_texts("replace", node, visit, node.this, node.expression, node.args["replacement"])


def _translate(node: exp.Expr, visit: Visit) -> Term:
    return _of_texts("translate", node, visit, node.this, node.args["from_"], node.args["to"])


def _position(node: exp.Expr, visit: Visit) -> Term:
    if set(node.args) - {"this", "substr"} and any(
        node.args.get(name) for name in set(node.args) - {"this", "substr"}
    ):
        raise refuse(node)
    operand = require_text(node, visit(node.this))
    sought = require_text(node, visit(node.args["substr"]))
    return Term(f"instr({operand.sql}, {sought.sql})", "int4")


def _starts_with(node: exp.Expr, visit: Visit) -> Term:
    operand = require_text(node, visit(node.this))
    prefix = require_text(node, visit(node.expression))
    return bool_term(f"startswith({operand.sql}, {prefix.sql})")


def _pad(node: exp.Expr, visit: Visit) -> Term:
    operand, count = _text_and_count(node, visit)
    fill = node.args.get("fill_pattern")
    filler = require(node, visit(fill), "text", "varchar").sql if fill is not None else "' '"
    function = "lpad" if node.args.get("is_left") else "rpad"
    return text_term(f"{function}({operand.sql}, {count.sql}, {filler})", operand)


def _reverse(node: exp.Expr, visit: Visit) -> Term:
    operand = require(node, visit(node.this), "text", "varchar")
    return text_term(f"reverse({operand.sql})", operand)


def _repeat(node: exp.Expr, visit: Visit) -> Term:
    operand = require(node, visit(node.this), "text", "varchar")
    times = _integer(node, node.args["times"], visit)
    # PostgreSQL refuses a text over 1 GB, which Spark would try to make.
    if times.literal is None or int(times.literal) > _MAX_REPEAT:
        raise refuse(node)
    return text_term(f"repeat({operand.sql}, {times.sql})", operand)


def _split_part(node: exp.Expr, visit: Visit) -> Term:
    operand = require_text(node, visit(node.this))
    delimiter = require_text(node, visit(node.args["delimiter"]))
    index = _integer(node, node.args["part_index"], visit)
    return text_term(f"split_part({operand.sql}, {delimiter.sql}, {index.sql})", operand)


def _ascii(node: exp.Expr, visit: Visit) -> Term:
    return Term(f"ascii({require(node, visit(node.this), 'text', 'varchar').sql})", "int4")


RULES: dict[type[exp.Expr], Rule] = {
    exp.Upper: _change_case,
    exp.Lower: _change_case,
    exp.DPipe: _concatenate,
    exp.Concat: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Length: _length,
    exp.Substring: _substring,
    exp.Left: _left,
    exp.Right: _right,
    exp.Trim: _trim,
    exp.Replace: _replace,
    exp.Translate: _translate,
    exp.StrPosition: _position,
    exp.StartsWith: _starts_with,
    exp.Pad: _pad,
    exp.Reverse: _reverse,
    exp.Repeat: _repeat,
    exp.SplitPart: _split_part,
    exp.Ascii: _ascii,
}
# Functions that the parser has no class for, by their name.
FUNCTIONS: dict[str, Rule] = {"octet_length": _bytes}


def _of_texts(function: str, node: exp.Expr, visit: Visit, *arguments: exp.Expr) -> Term:
    terms = [require_text(node, visit(argument)) for argument in arguments]
    return text_term(f"{function}({', '.join(term.sql for term in terms)})", *terms)


def _text_and_count(node: exp.Expr, visit: Visit) -> tuple[Term, Term]:
    operand = require(node, visit(node.this), "text", "varchar")
    return operand, _integer(node, node.expression, visit)


def _integer(node: exp.Expr, argument: exp.Expr | None, visit: Visit) -> Term:
    if argument is None:
        raise refuse(node)
    term = visit(argument)
    if term.base not in {*INTEGERS[:2], NULL}:
        raise refuse(node)
    return term


def _unless_null(sql: str, term: Term) -> str:
    """Keep a NULL that Spark's greatest() would overlook."""
    if term.literal:
        return sql
    return f"(CASE WHEN {term.sql} IS NOT NULL THEN {sql} END)"
