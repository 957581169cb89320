"""One version of pgtrickle beside another: does on demand what ``benchmarks.versions`` measures.

Run by path, with the other version's sources on ``PYTHONPATH``; it uses the public surface only.
Each line of standard input names what to do; each line of standard output says how long it took.
"""

from __future__ import annotations

import json
import sys
import time

import psycopg

import pgtrickle

_SHOP = """
    CREATE TABLE customers (id int PRIMARY KEY, region text);
    CREATE TABLE products (id int PRIMARY KEY, category text, price numeric(10, 2));
    CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int, product_id int, quantity int);
    CREATE TABLE captured (id bigint PRIMARY KEY, a int, b int, c numeric(10, 2), d text);
    INSERT INTO customers SELECT i, 'region ' || i % 20 FROM generate_series(1, 20000) AS i;
    INSERT INTO products SELECT i, 'category ' || i % 50, i FROM generate_series(1, 2000) AS i;
    INSERT INTO orders SELECT i, 1 + i * 7919 % 20000, 1 + i * 104729 % 2000, 1 + i % 9
      FROM generate_series(1, 200000::bigint) AS i;
    ANALYZE;
"""
_QUERY = """
    SELECT c.region, p.category, sum(o.quantity * p.price) AS revenue, count(*) AS orders
      FROM orders AS o JOIN customers AS c ON c.id = o.customer_id
      JOIN products AS p ON p.id = o.product_id GROUP BY c.region, p.category
"""
_CHANGE = "UPDATE orders SET quantity = quantity + 1 WHERE id BETWEEN %s AND %s"
_BULK = "INSERT INTO captured SELECT i, i, i, i, 'x' FROM generate_series(%s::bigint, %s) AS i"
_ROWS = 20_000
_SINGLES = 400


def main() -> None:
    """Set up, say so, and do what is asked."""
    home = sys.argv[1]
    with pgtrickle.connect(home) as trickle, psycopg.connect(home, autocommit=True) as shop:
        trickle.init()
        shop.execute(_SHOP)
        trickle.create_stream_table("revenue", _QUERY)
        trickle.create_stream_table("copy", "SELECT id, a, b, c FROM captured")
        print("ready", flush=True)
        at = 0
        for number, line in enumerate(sys.stdin):
            what = line.strip()
            took: dict[str, float] = {}
            if what == "refresh":
                first = 1 + number * 100 % 190_000
                shop.execute(_CHANGE, [first, first + 49])
                began = time.perf_counter()
                report = trickle.refresh_stream_table("revenue")
                took["refresh"] = (time.perf_counter() - began) * 1000
                took |= {f"refresh: {step}": ms for step, ms in report.timings_ms.items()}
            elif what == "capture":
                for name, statement in (
                    ("bulk INSERT", _BULK),
                    ("bulk UPDATE", "UPDATE captured SET a = a + 1 WHERE id BETWEEN %s AND %s"),
                    ("bulk DELETE", "DELETE FROM captured WHERE id BETWEEN %s AND %s"),
                ):
                    began = time.perf_counter()
                    shop.execute(statement, [at, at + _ROWS])
                    took[name] = (time.perf_counter() - began) * 1000
                began = time.perf_counter()
                for one in range(_SINGLES):
                    shop.execute("INSERT INTO captured VALUES (%s, 1, 2, 3, 'x')", [-at - one])
                took["single INSERT"] = (time.perf_counter() - began) * 1000 / _SINGLES
                at += _ROWS + _SINGLES + 1
                trickle.refresh_stream_table("copy")
            print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
