"""Many changes on PostgreSQL as the engine: what they read is stored, or planned without keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from psycopg import Connection

from pgtrickle.plan.stages import StagePlan
from pgtrickle.postgres_engine import stage
from pgtrickle.postgres_engine.changes import Changes
from pgtrickle.service.refreshing.stages import in_postgres
from tests.labs.lab import Lab

_TABLES = (
    "CREATE TABLE orders (id int PRIMARY KEY, customer int, status text)",
    "CREATE TABLE lines (id int PRIMARY KEY, order_id int, price numeric(8, 2))",
    "CREATE INDEX ON lines (order_id)",
    "INSERT INTO orders SELECT i, i % 7, CASE WHEN i % 3 = 0 THEN 'open' ELSE 'paid' END"
    " FROM generate_series(1, 60) AS i",
    "INSERT INTO lines SELECT i, 1 + i % 60, i * 1.25 FROM generate_series(1, 300) AS i",
)
_QUERIES = {
    "joined": "SELECT o.id, o.status, l.price FROM orders AS o"
    " JOIN lines AS l ON l.order_id = o.id",
    "filtered": "SELECT o.customer, sum(l.price) AS total FROM orders AS o"
    " JOIN lines AS l ON l.order_id = o.id WHERE o.status = 'open' GROUP BY o.customer",
    "outer_rows": "SELECT o.id, l.id AS line FROM orders AS o LEFT JOIN lines AS l"
    " ON l.order_id = o.id AND l.price > 100",
    "nested": "SELECT t.customer, count(*) AS orders, max(t.total) AS largest FROM ("
    "SELECT o.customer, o.id, sum(l.price) AS total FROM orders AS o"
    " JOIN lines AS l ON l.order_id = o.id GROUP BY o.customer, o.id) AS t GROUP BY t.customer",
    "without": "SELECT id FROM orders AS o"
    " WHERE NOT EXISTS (SELECT FROM lines AS l WHERE l.order_id = o.id AND l.price < 200)",
}
_WINDOWS = (
    ("UPDATE lines SET price = price + 1 WHERE id % 2 = 0",),
    ("UPDATE orders SET status = 'paid' WHERE id % 5 = 0", "DELETE FROM lines WHERE order_id = 9"),
    ("UPDATE lines SET order_id = 1 + (order_id + 7) % 60 WHERE id % 3 = 0",),
    ("INSERT INTO orders VALUES (61, 1, 'open')", "INSERT INTO lines VALUES (999, 61, 5)"),
    ("DELETE FROM orders WHERE id < 20", "UPDATE lines SET price = 150 WHERE id > 250"),
)


@pytest.mark.parametrize("many", [0, 100_000], ids=["planned", "stored"])
@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES)
def test_many_changes_lead_to_the_answer(
    postgres_lab: Lab, monkeypatch: pytest.MonkeyPatch, query: str, many: int
) -> None:
    monkeypatch.setattr(stage, "FEW_CHANGES", 0)
    monkeypatch.setattr(stage, "MANY_CHANGES", many)
    postgres_lab.run(*_TABLES)
    postgres_lab.create("result", query)

    for window in _WINDOWS:
        postgres_lab.window(*window)


def test_index_finds_the_partners_of_a_few_among_many_changes(
    postgres_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[str] = []

    def explained(
        writer: Connection, plan: StagePlan, changes: Mapping[str, Changes], *others: Any
    ) -> int:
        rows = compute_stage(writer, plan, changes, *others)
        explain = f"EXPLAIN {stage.write_stage(plan, changes, {}, {})}"
        plans.append("\n".join(line for (line,) in writer.execute(explain.encode())))
        return rows

    compute_stage = stage.compute_stage
    monkeypatch.setattr(stage, "FEW_CHANGES", 0)
    monkeypatch.setattr(stage, "MANY_CHANGES", 0)
    monkeypatch.setattr(in_postgres, "compute_stage", explained)
    postgres_lab.run(
        *_TABLES,
        "INSERT INTO lines SELECT i, i, 1 FROM generate_series(1000, 60000) AS i",
        "INSERT INTO orders SELECT i, i % 7, 'open' FROM generate_series(1000, 60000) AS i",
        "ANALYZE",
    )
    postgres_lab.create("joined", _QUERIES["joined"])
    postgres_lab.window(
        "UPDATE lines SET price = price + 1 WHERE id BETWEEN 1000 AND 1800",
        "UPDATE orders SET status = 'paid' WHERE id BETWEEN 5000 AND 5010",
    )

    plan = plans[-1]
    assert "Index Scan using lines_order_id_idx" in plan, plan
    assert "Seq Scan on lines" not in plan, plan
