"""PostgreSQL's dialect in DuckDB's, with PostgreSQL's meaning where the two differ."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import lru_cache

import sqlglot
from sqlglot import exp


@lru_cache(maxsize=4096)
def to_duckdb(sql: str) -> str:
    """Write a query or an expression of PostgreSQL's dialect in DuckDB's."""
    tree = sqlglot.parse_one(sql, dialect="postgres")
    for found in list(tree.find_all(exp.In)):
        if isinstance(found.this.unnest(), exp.Tuple) and found.args.get("query"):
            found.replace(_row_membership(found))
    return _without_digits(tree).sql(dialect="duckdb")


def _without_digits(tree: exp.Expr) -> exp.Expr:
    """Drop what DuckDB cannot say of numerics: quotients and roots are floats there."""

    def plain(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Round) and _asks_for_digits(node.args.get("decimals")):
            return _without_digits(node.this)
        if isinstance(node, exp.Cast) and node.this == exp.Literal.string("NaN"):
            return exp.cast(node.this, "double")
        return node

    return tree.transform(plain)


def _asks_for_digits(number: exp.Expr | None) -> bool:
    calls = number.find_all(exp.Anonymous) if number is not None else ()
    return any(call.name.lower() == "scale" for call in calls)


def _row_membership(found: exp.In) -> exp.Expr:
    """Compare rows column by column: DuckDB takes a row with a NULL for NULL as a whole."""
    operands = found.this.unnest().expressions
    names = [f"c{number}" for number in range(1, len(operands) + 1)]
    equal = " AND ".join(
        f"(({operand.sql(dialect='postgres')}) = members.{name})"
        for operand, name in zip(operands, names, strict=True)
    )
    query = found.args["query"].this.sql(dialect="postgres")
    return sqlglot.parse_one(
        f"(SELECT CASE WHEN bool_or({equal}) THEN true WHEN count(*) > count({equal}) THEN NULL"
        f" ELSE false END FROM ({query}) AS members({', '.join(names)}))",
        dialect="postgres",
    )


def literal(value: object) -> str:
    """Write a value as SQL text without losing a bit of it."""
    match value:
        case None:
            return "NULL"
        case bool() | int() | Decimal():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case dt.date():
            return f"CAST('{value}' AS DATE)"
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case _:
            return "'" + str(value).replace("'", "''") + "'"
