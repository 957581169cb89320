"""The type of an expression is the one of its text, not of what a planner makes of NULLs."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, n numeric(8, 2), m numeric, s varchar(3), l varchar(20))",
    "INSERT INTO t VALUES (1, 0.50, 0.5555, 'abc', 'longer'), (2, 1.25, 7, 'def', 'long')",
)
# With NULL for each column, a planner sees nothing but the first branch of each.
_CHOSEN = (
    "CASE WHEN id IS NULL THEN n ELSE m END",
    "CASE WHEN NOT (id IS NOT NULL) THEN n ELSE 0.125 END",
    "CASE WHEN l IS NULL THEN s ELSE l END",
)
_QUERIES = (
    "SELECT DISTINCT id, {} AS chosen FROM t",
    "SELECT {} AS chosen, count(*) AS n FROM t GROUP BY 1",
    "SELECT id, max({}) AS chosen FROM t GROUP BY id",
)


@pytest.mark.parametrize("chosen", _CHOSEN)
def test_values_of_a_branch_are_not_cut_to_the_size_of_another(
    postgres_lab: Lab, chosen: str
) -> None:
    lab = postgres_lab
    lab.run(*_TABLES)
    for number, query in enumerate(_QUERIES):
        lab.create(f"made_{number}", query.format(chosen))

    lab.window("UPDATE t SET m = 3.14159, l = 'even longer' WHERE id = 1")

    for name, query in lab.queries.items():
        shown = f"SELECT chosen::text FROM {name}"
        assert lab.rows(shown) == lab.rows(f"SELECT chosen::text FROM ({query}) AS q")
