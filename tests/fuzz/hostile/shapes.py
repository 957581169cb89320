"""Deep and wide queries around a given one, in sizes from harmless to absurd."""

from __future__ import annotations

import random
from collections.abc import Callable

Shape = Callable[[str, int], str]

_SIZES = (2, 5, 12, 30, 70, 190, 210, 400, 1_000, 4_000)


def reshape(source: random.Random, sql: str) -> str:
    """Nest or widen a query."""
    name = source.choice(sorted(SHAPES))
    return SHAPES[name](sql, source.choice(_SIZES))


def _doubled(sql: str, size: int) -> str:
    ctes = "".join(
        f", c{n} AS (SELECT a.* FROM c{n - 1} AS a, c{n - 1} AS b)" for n in range(1, size)
    )
    return f"WITH c0 AS ({sql}){ctes} SELECT count(*) AS n FROM c{max(0, size - 1)}"


def _chained(sql: str, size: int) -> str:
    ctes = "".join(f", c{n} AS (SELECT * FROM c{n - 1})" for n in range(1, size))
    return f"WITH c0 AS ({sql}){ctes} SELECT * FROM c{max(0, size - 1)}"


SHAPES: dict[str, Shape] = {
    "parentheses": lambda sql, n: "(" * n + sql + ")" * n,
    "parentheses that stay open": lambda sql, n: "(" * n + sql,
    "parentheses too many": lambda sql, n: sql + ")" * n,
    "derived tables": lambda sql, n: "SELECT * FROM (" * n + sql + ") AS x" * n,
    "scalar subqueries": lambda sql, n: "SELECT (" * n + f"SELECT count(*) FROM ({sql}) AS x" + ") AS y" * n,
    "EXISTS in EXISTS": lambda sql, n: "SELECT 1 AS x WHERE EXISTS (" * n + sql + ")" * n,
    "NOT IN in NOT IN": lambda sql, n: "SELECT 1 AS x WHERE 1 NOT IN (" * n + "SELECT 1" + ")" * n + f" AND EXISTS ({sql})",
    "lateral": lambda sql, n: f"SELECT 1 AS one FROM ({sql}) AS x0" + "".join(f", LATERAL (SELECT x{i}.* ) AS x{i + 1}" for i in range(n)),
    "chained CTEs": _chained,
    "CTEs that double": _doubled,
    "CTEs in CTEs": lambda sql, n: "WITH x AS (" * n + sql + ") SELECT * FROM x" * n,
    "a UNION ALL": lambda sql, n: " UNION ALL ".join([f"({sql})"] * min(n, 400)),
    "an EXCEPT of EXCEPTs": lambda sql, n: f"({sql}) EXCEPT (" * n + sql + ")" * n,
    "columns": lambda sql, n: f"SELECT {', '.join(f'{i} AS c{i}' for i in range(n))}, x.* FROM ({sql}) AS x",
    "a sum": lambda sql, n: f"SELECT {' + '.join(['1'] * n)} AS s FROM ({sql}) AS x",
    "CASE in CASE": lambda sql, n: f"SELECT {'CASE WHEN true THEN ' * n}1{' END' * n} AS s FROM ({sql}) AS x",
    "functions of functions": lambda sql, n: f"SELECT {'abs(' * n}1{')' * n} AS s FROM ({sql}) AS x",
    "NOT": lambda sql, n: f"SELECT 1 AS s FROM ({sql}) AS x WHERE {'NOT ' * n}true",
    "minus": lambda sql, n: f"SELECT {'- ' * n}1 AS s FROM ({sql}) AS x",
    "casts": lambda sql, n: f"SELECT 1{'::int::text' * n} AS s FROM ({sql}) AS x",
    "arrays": lambda sql, n: f"SELECT {'ARRAY[' * n}1{']' * n} AS s FROM ({sql}) AS x",
    "subscripts": lambda sql, n: f"SELECT (ARRAY[1]){'[1]' * n} AS s FROM ({sql}) AS x",
    "rows": lambda sql, n: f"SELECT {'ROW(' * n}1{')' * n}::text AS s FROM ({sql}) AS x",
    "AND and OR": lambda sql, n: f"SELECT 1 AS s FROM ({sql}) AS x WHERE {' AND true OR '.join(['x IS NOT NULL'] * n)}",
    "a list": lambda sql, n: f"SELECT 1 AS s FROM ({sql}) AS x WHERE 1 IN ({', '.join(map(str, range(n)))})",
    "VALUES": lambda sql, n: f"SELECT v.a FROM ({sql}) AS x, (VALUES {', '.join(f'({i})' for i in range(n))}) AS v (a)",
    "a join with itself": lambda sql, n: f"SELECT count(*) AS n FROM ({sql}) AS x0" + "".join(f" CROSS JOIN ({sql}) AS x{i}" for i in range(1, min(n, 100))),
    "LEFT JOINs": lambda sql, n: f"SELECT t0.id FROM ({sql}) AS x LEFT JOIN orders AS t0 ON true" + "".join(f" LEFT JOIN orders AS t{i} ON t{i}.id = t{i - 1}.quantity" for i in range(1, n)),
    "FULL JOINs": lambda sql, n: f"SELECT t0.id FROM ({sql}) AS x CROSS JOIN orders AS t0" + "".join(f" FULL JOIN orders AS t{i} ON t{i}.id = t{i - 1}.quantity" for i in range(1, n)),
    "a snowflake": lambda sql, n: f"SELECT t0.id FROM ({sql}) AS x CROSS JOIN orders AS t0" + "".join(f" JOIN orders AS t{i} ON t{i}.id = t{i // 3}.quantity" for i in range(1, n)),
    "NATURAL JOINs": lambda sql, n: f"SELECT 1 AS n FROM ({sql}) AS x" + " NATURAL JOIN orders" * n,
    "windows": lambda sql, n: f"SELECT {', '.join(f'sum({i}) OVER (ORDER BY {i} + x.x) AS w{i}' for i in range(n))} FROM (SELECT 1 AS x FROM ({sql}) AS y) AS x",
    "a CUBE": lambda sql, n: f"SELECT count(*) AS n FROM ({sql}) AS x GROUP BY CUBE ({', '.join(f'(x.* IS NULL), {i}' for i in range(n))})",
    "grouping sets": lambda sql, n: "SELECT count(*) AS n FROM (" + sql + ") AS x GROUP BY " + ", ".join(["GROUPING SETS ((), ())"] * n),
    "a long name": lambda sql, n: f'SELECT 1 AS "{"x" * n}", 2 AS "{"x" * n}y" FROM ({sql}) AS x',
    "a long text": lambda sql, n: f"SELECT '{'x' * n * 1000}' AS s FROM ({sql}) AS x",
    "a long comment": lambda sql, n: f"{sql} /*{'/* ' * n}{'*/' * n}*/",
    "blanks": lambda sql, n: sql.replace(" ", " " * n) if n < 100 else sql + "\n" * n,
}  # fmt: skip
