"""Group keys that are equal and look different, as 1 mon and 30 days, 1.0 and 1.00 in jsonb."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_TABLE = (
    "CREATE TABLE t (id int, i interval, j jsonb, a numeric[])",
    """INSERT INTO t VALUES (1, '1 mon', '{"a": 1.0}', '{1}'), (2, '1 day', '{}', '{}'),"""
    " (7, '24:00', '{}', '{}')",
)
_QUERIES = {
    "by_one": "SELECT i, count(*) AS n, sum(id) AS s FROM t GROUP BY i",
    "by_three": "SELECT i, j, a, max(id) AS m FROM t GROUP BY i, j, a",
    "sets": "SELECT i, j, count(*) AS n FROM t GROUP BY ROLLUP (i, j)",
    "nested": "SELECT i, s FROM (SELECT i, sum(id) AS s FROM t GROUP BY i) AS x WHERE s > 3",
}
_STATEMENTS = (
    """INSERT INTO t VALUES (3, '30 days', '{"a": 1.00}', '{1.0}')""",
    "DELETE FROM t WHERE id = 1",
    """INSERT INTO t VALUES (4, '720 hours', '{"a": 1.000}', '{1.000}')""",
    "DELETE FROM t WHERE id = 3",
    "UPDATE t SET i = '1 mon' WHERE id = 4",
    "DELETE FROM t WHERE id = 4",
    "INSERT INTO t SELECT id + 9, i + '0', j, a FROM t",
    "TRUNCATE t",
)


@pytest.mark.parametrize("mode", ["IMMEDIATE", "DIFFERENTIAL"])
def test_keys_that_look_different(postgres_lab: Lab, mode: str) -> None:
    lab = postgres_lab
    lab.run(*_TABLE)
    for name, query in _QUERIES.items():
        lab.create(name, query, mode)
    for number, statement in enumerate(_STATEMENTS):
        lab.run(statement)
        for name in _QUERIES:
            if mode != "IMMEDIATE":
                lab.trickle.refresh_stream_table(name, full=number == 3)
            assert lab.differences(name) == [], (statement, name)
