"""A thousand random statements against the shapes of TPC-H's Q7 and Q15, without drift."""

from __future__ import annotations

import random

import psycopg
import pytest

from tests.labs.lab import Lab
from tests.workloads.tpch.workload import load_scale, queries_at

_SCALE = 0.01
_STATEMENTS = 1000
_LOOK_EVERY = 20
# What Q7 and Q15 ask for, so that most statements matter to them.
_NATIONS = "(6, 7)"
_DATES = "date '1995-01-01' + (random() * 720)::int"


def _statement(draw: random.Random, number: int) -> str:
    """Draw one statement; ``number`` makes its keys new."""
    if number % 100 == 50:  # reads all orders of two nations
        return (
            "UPDATE nation SET n_name = CASE n_name WHEN 'FRANCE' THEN 'GERMANY' ELSE 'FRANCE' END"
            f" WHERE n_nationkey IN {_NATIONS}"
        )
    order, some = 5_000_000 + number, draw.randrange(499)
    lines = draw.choice([1, 1, 3, 40])
    return draw.choice(
        [
            f"INSERT INTO lineitem SELECT o_orderkey, 1, (SELECT s_suppkey FROM supplier ORDER BY"
            f" s_nationkey NOT IN {_NATIONS}, md5(s_suppkey || '{number}') LIMIT 1), {order}, 1,"
            f" 1000 + {number}, 0.05, 0, 'N', 'O', {_DATES}, current_date, current_date, 'x',"
            f" 'AIR', 'x' FROM orders WHERE o_orderkey % 499 = {some} LIMIT {lines}",
            f"WITH new AS (INSERT INTO orders SELECT {order}, c_custkey, 'O', 1, date '1995-05-05',"
            f" '1-URGENT', 'c', 0, 'x' FROM customer WHERE c_nationkey IN {_NATIONS} LIMIT 1"
            " RETURNING o_orderkey) INSERT INTO lineitem SELECT o_orderkey, 1, s_suppkey,"
            " s_suppkey, 1, 5000, 0.05, 0, 'N', 'O', date '1996-02-01', current_date,"
            f" current_date, 'x', 'AIR', 'x' FROM new, supplier WHERE s_nationkey IN {_NATIONS}",
            f"UPDATE lineitem SET l_extendedprice = l_extendedprice + 1, l_shipdate = {_DATES}"
            f" WHERE l_orderkey % 499 = {some}",
            f"UPDATE lineitem SET l_suppkey = 1 + (l_suppkey + {number}) % 20"
            f" WHERE l_orderkey % 499 = {some}",
            f"DELETE FROM lineitem WHERE l_orderkey % 4999 = {draw.randrange(4999)}",
            f"WITH gone AS (DELETE FROM orders WHERE o_orderkey % 4999 = {draw.randrange(4999)}"
            " RETURNING o_orderkey) DELETE FROM lineitem USING gone WHERE l_orderkey = o_orderkey",
            f"UPDATE supplier SET s_nationkey = {draw.choice([6, 7, 3])} WHERE s_suppkey % 7 ="
            f" {draw.randrange(7)}",
            f"UPDATE customer SET c_nationkey = {draw.choice([6, 7, 8])} WHERE c_custkey % 31 ="
            f" {draw.randrange(31)}",
            f"UPDATE orders SET o_custkey = 1 + o_custkey % 300 WHERE o_orderkey % 499 = {some}",
            f"UPDATE supplier SET s_phone = '{number}' WHERE s_suppkey % 5 = {draw.randrange(5)}",
        ]
    )


@pytest.mark.timeout(900)
def test_a_thousand_statements(lab: Lab) -> None:
    load_scale(lab.connection, _SCALE)
    queries = queries_at(_SCALE)
    for name in ("q07", "q15"):
        lab.create(name, queries[name].partition("\n")[2], "IMMEDIATE")
    lab.run("ANALYZE")
    draw = random.Random(15)
    undone = 0
    for number in range(_STATEMENTS):
        statement = _statement(draw, number)
        undo = draw.random() < 0.1
        try:
            with lab.connection.transaction(force_rollback=undo):
                lab.run(statement)
        except psycopg.errors.UniqueViolation:
            undone += 1
        if number % _LOOK_EVERY == 0 or undo:
            for name in lab.queries:
                assert lab.differences(name) == [], (number, name, statement)
    assert undone < _STATEMENTS / 10
    assert lab.value("SELECT bool_and(ready) FROM pgtrickle.pgt_immediate")
    for name in lab.queries:
        lab.check(name)
        assert lab.value(f"SELECT count(*) FROM {name}") > 0
