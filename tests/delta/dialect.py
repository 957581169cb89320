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
    return tree.sql(dialect="duckdb")


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
