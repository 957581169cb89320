"""Expressions over several tables, in the dialect that has to evaluate them.

PostgreSQL's meaning is the law.  For Spark this is a table of what is known to mean the same
there: whatever is not in it is refused by name, never approximated.  Spark runs in ANSI mode, so
overflow and division by zero are errors on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from sqlglot import exp

from pgtrickle.algebra.nodes import Scalar
from pgtrickle.errors import UnsupportedExpressionError
from pgtrickle.model.sql_type import SqlType
from pgtrickle.sql.scalars import parse_scalar


class Dialect(Enum):
    """A language that a plan can be written in."""

    SPARK = "spark"
    POSTGRES = "postgres"
    DUCKDB = "duckdb"


_INTEGERS = ("int2", "int4", "int8")
_DIGITS = {"int2": 5, "int4": 10, "int8": 19}
_FLOATS = ("float4", "float8")
_NUMBERS = (*_INTEGERS, "numeric", *_FLOATS)
_TEXTS = ("text", "varchar", "bpchar", "name")
_TIMES = ("date", "timestamp", "timestamptz")
# Types whose carried text is equal exactly where PostgreSQL's values are.
_TEXT_CARRIED = ("uuid", "bytea", "time")

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


def translate(scalar: Scalar, types: Mapping[str, SqlType], dialect: Dialect) -> str:
    """Write a scalar over columns of the given types in ``dialect``.

    >>> bigint = SqlType("bigint", "int8", "N")
    >>> translate(Scalar('"a" / 2', ("a",)), {"a": bigint}, Dialect.SPARK)
    '(`a` DIV 2)'
    """
    if dialect is Dialect.POSTGRES:
        return scalar.sql
    if dialect is Dialect.DUCKDB:
        return _to_duckdb(scalar.sql)
    return _ToSpark(types).visit(parse_scalar(scalar.sql))[0]


@lru_cache(maxsize=4096)
def _to_duckdb(sql: str) -> str:
    return parse_scalar(sql).sql(dialect="duckdb")


def quote_name(name: str, dialect: Dialect) -> str:
    """Quote an identifier in a dialect.

    >>> quote_name("o_id", Dialect.SPARK)
    '`o_id`'
    """
    if dialect is Dialect.SPARK:
        return "`" + name.replace("`", "``") + "`"
    return '"' + name.replace('"', '""') + '"'


class _ToSpark:
    """Walks an expression; each visit returns Spark's text and PostgreSQL's base type."""

    def __init__(self, types: Mapping[str, SqlType]) -> None:
        self._types = types

    def visit(self, node: exp.Expr) -> tuple[str, str]:
        match node:
            case exp.Paren():
                return self.visit(node.this)
            case exp.Column():
                return quote_name(node.name, Dialect.SPARK), self._types[node.name].base
            case exp.Literal() | exp.Boolean() | exp.Null():
                return self._literal(node)
            case exp.Cast():
                return self._cast(node)
            case exp.And() | exp.Or():
                word = "AND" if isinstance(node, exp.And) else "OR"
                return (
                    f"({self._of(node.this, 'bool')} {word} {self._of(node.expression, 'bool')})",
                    "bool",
                )
            case exp.Not():
                return f"(NOT {self._of(node.this, 'bool')})", "bool"
            case exp.Is():
                return self._is(node)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                left, right = self._comparable(node, ordered=False)
                text = f"({left} <=> {right})"
                return (text if isinstance(node, exp.NullSafeEQ) else f"(NOT {text})"), "bool"
            case exp.Neg():
                text, type_ = self._number(node.this)
                return f"(- {text})", type_
            case exp.Case():
                return self._case(node)
            case exp.Coalesce():
                return self._same_type("coalesce", [node.this, *node.expressions])
            case exp.Greatest() | exp.Least():
                return self._same_type(node.key, [node.this, *node.expressions], ordered=True)
            case exp.Abs():
                text, type_ = self._number(node.this)
                return f"abs({text})", type_
            case exp.DPipe():
                return f"({self._text(node.this)} || {self._text(node.expression)})", "text"
            case _:
                return self._operator(node)

    def _operator(self, node: exp.Expr) -> tuple[str, str]:
        kind = type(node)
        if kind in _COMPARISONS:
            ordered = kind not in {exp.EQ, exp.NEQ}
            left, right = self._comparable(node, ordered=ordered)
            return f"({left} {_COMPARISONS[kind]} {right})", "bool"
        if kind in _ARITHMETIC:
            left, left_type = self._number(node.this)
            right, right_type = self._number(node.expression)
            return f"({left} {_ARITHMETIC[kind]} {right})", _wider(left_type, right_type)
        if kind in {exp.Div, exp.Mod}:
            return self._division(node)
        raise _refuse(node)

    def _division(self, node: exp.Expr) -> tuple[str, str]:
        left, left_type = self._number(node.this)
        right, right_type = self._number(node.expression)
        wider = _wider(left_type, right_type)
        if isinstance(node, exp.Mod) and wider in _INTEGERS:
            return f"({left} % {right})", wider
        if isinstance(node, exp.Div) and wider in _INTEGERS:
            return f"({left} DIV {right})", wider
        if isinstance(node, exp.Div) and wider == "float8":
            return f"({left} / {right})", wider
        # The number of digits of a numeric quotient follows rules of PostgreSQL's own.
        raise _refuse(node)

    def _literal(self, node: exp.Expr) -> tuple[str, str]:
        if isinstance(node, exp.Null):
            return "NULL", "null"
        if isinstance(node, exp.Boolean):
            return ("TRUE" if node.this else "FALSE"), "bool"
        if node.is_string:
            return node.sql(dialect="spark"), "text"
        if "e" in node.this.lower():
            raise _refuse(node)
        if "." in node.this:
            return node.this, "numeric"
        return node.this, "int4" if int(node.this) < 2**31 else "int8"

    def _cast(self, node: exp.Cast) -> tuple[str, str]:
        text, source = self.visit(node.this)
        target = _base_of(node.to)
        if source == "null":
            return _null(target), target
        if target == "numeric" and not node.to.expressions:
            if source in _INTEGERS:
                return f"CAST({text} AS DECIMAL({_DIGITS[source]}, 0))", "numeric"
            if source == "numeric":
                return text, "numeric"
        if target in {"text", "varchar"} and not node.to.expressions:
            if source in {"text", "varchar"}:
                return text, target
            if source == "bpchar":
                return f"rtrim({text})", target
        widening = (
            _INTEGERS.index(source) <= _INTEGERS.index(target)
            if (source in _INTEGERS and target in _INTEGERS)
            else False
        )
        if widening or (source in _INTEGERS and target == "float8") or source == target == "bool":
            return f"CAST({text} AS {_SPARK_TYPES[target]})", target
        if source == target and source in (*_FLOATS, *_TIMES) and not node.to.expressions:
            return text, target
        raise _refuse(node)

    def _is(self, node: exp.Is) -> tuple[str, str]:
        operand, _ = self.visit(node.this)
        if isinstance(node.expression, exp.Null):
            return f"({operand} IS NULL)", "bool"
        if isinstance(node.expression, exp.Boolean):
            word = "TRUE" if node.expression.this else "FALSE"
            return f"({self._of(node.this, 'bool')} IS {word})", "bool"
        raise _refuse(node)

    def _case(self, node: exp.Case) -> tuple[str, str]:
        subject = node.this
        conditions, values = [], []
        for branch in node.args["ifs"]:
            if subject is not None:
                condition = self._operator(
                    exp.EQ(this=subject.copy(), expression=branch.this.copy())
                )
                conditions.append(condition[0])
            else:
                conditions.append(self._of(branch.this, "bool"))
            values.append(branch.args["true"])
        default = node.args.get("default")
        results, type_ = self._one_type([*values, *([default] if default else [])])
        whens = " ".join(
            f"WHEN {condition} THEN {result}"
            for condition, result in zip(conditions, results, strict=False)
        )
        otherwise = f" ELSE {results[-1]}" if default else ""
        return f"(CASE {whens}{otherwise} END)", type_

    def _same_type(
        self, function: str, arguments: list[exp.Expr], *, ordered: bool = False
    ) -> tuple[str, str]:
        texts, type_ = self._one_type(arguments)
        if ordered and type_ not in (*_NUMBERS, *_TIMES):
            raise UnsupportedExpressionError(
                f"cannot order values of the type {type_} outside PostgreSQL",
                hint=_HINT,
            )
        return f"{function}({', '.join(texts)})", type_

    def _one_type(self, nodes: list[exp.Expr]) -> tuple[list[str], str]:
        """Visit alternatives that must have one type; numbers widen to the widest."""
        visited = [self.visit(node) for node in nodes]
        known = {type_ for _, type_ in visited if type_ != "null"}
        if len(known) <= 1:
            return [text for text, _ in visited], next(iter(known), "null")
        if known <= set(_NUMBERS):
            widest = max(known, key=_NUMBERS.index)
            return [text for text, _ in visited], widest
        if known <= {"text", "varchar"}:
            return [text for text, _ in visited], "text"
        raise _refuse(nodes[0].parent or nodes[0])

    def _comparable(self, node: exp.Expr, *, ordered: bool) -> tuple[str, str]:
        (left, left_type), (right, right_type) = self.visit(node.this), self.visit(node.expression)
        pair = {left_type, right_type} - {"null"}
        if pair <= set(_NUMBERS) or (len(pair) <= 1 and pair <= {"bool", *_TIMES}):
            return left, right
        if pair <= {"text", "varchar", "name"} and self._compares_by_bytes(node, ordered=ordered):
            return left, right
        if pair == {"bpchar"} and not ordered:
            return f"rtrim({left})", f"rtrim({right})"
        if (
            len(pair) == 1
            and not ordered
            and (pair <= set(_TEXT_CARRIED) or self._enumerated(node))
        ):
            return left, right
        raise _refuse(node)

    def _compares_by_bytes(self, node: exp.Expr, *, ordered: bool) -> bool:
        types = [self._types[column.name] for column in node.find_all(exp.Column)]
        collations = {type_.collation for type_ in types if type_.category == "S"}
        return collations <= {"C"} if ordered else "nondeterministic" not in collations

    def _enumerated(self, node: exp.Expr) -> bool:
        return all(self._types[column.name].category == "E" for column in node.find_all(exp.Column))

    def _number(self, node: exp.Expr) -> tuple[str, str]:
        text, type_ = self.visit(node)
        if type_ not in _NUMBERS:
            raise _refuse(node.parent or node)
        return text, type_

    def _text(self, node: exp.Expr) -> str:
        text, type_ = self.visit(node)
        if type_ not in {"text", "varchar", "null"}:
            raise _refuse(node.parent or node)
        return text

    def _of(self, node: exp.Expr, wanted: str) -> str:
        text, type_ = self.visit(node)
        if type_ not in {wanted, "null"}:
            raise _refuse(node)
        return text


_SPARK_TYPES = {
    "int2": "SMALLINT",
    "int4": "INT",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "text": "STRING",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP_LTZ",
}
_BASES = {
    exp.DType.SMALLINT: "int2",
    exp.DType.INT: "int4",
    exp.DType.BIGINT: "int8",
    exp.DType.DECIMAL: "numeric",
    exp.DType.FLOAT: "float4",
    exp.DType.DOUBLE: "float8",
    exp.DType.TEXT: "text",
    exp.DType.VARCHAR: "varchar",
    exp.DType.BPCHAR: "bpchar",
    exp.DType.BOOLEAN: "bool",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamptz",
}
_HINT = "Move the expression into one table, or create the stream table with refresh_mode = 'FULL'."


def _base_of(type_: exp.DataType) -> str:
    return _BASES.get(type_.this, "other") if isinstance(type_.this, exp.DType) else "other"


def _null(base: str) -> str:
    """Return a NULL of the type that carries values of ``base``.

    A numeric travels as a decimal of some size or as text, so its NULL has no type of its own.
    """
    return "NULL" if base == "numeric" else f"CAST(NULL AS {_SPARK_TYPES.get(base, 'STRING')})"


def _wider(left: str, right: str) -> str:
    return max(left, right, key=_NUMBERS.index)


def _refuse(node: exp.Expr) -> UnsupportedExpressionError:
    return UnsupportedExpressionError(
        f"no faithful translation for {node.sql(dialect='postgres')}", hint=_HINT
    )
