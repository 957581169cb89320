"""Joins of six to eight tables under deletes in several of them (scenarios.md: P5).

The queries have the shape of TPC-H 7, 8 and 9: one table at two places, keys of two columns, and
sums of a CASE over what was joined.
"""

from __future__ import annotations

from tests.labs.lab import Lab

TRADE = (
    "CREATE TABLE region (id int PRIMARY KEY, name text)",
    "CREATE TABLE nation (id int PRIMARY KEY, region_id int, name text)",
    "CREATE TABLE supplier (id int PRIMARY KEY, nation_id int)",
    "CREATE TABLE customer (id int PRIMARY KEY, nation_id int)",
    "CREATE TABLE part (id int PRIMARY KEY, kind text)",
    "CREATE TABLE offer (part_id int, supplier_id int, cost numeric(8,2))",
    "CREATE TABLE sale (id int PRIMARY KEY, customer_id int, day date)",
    "CREATE TABLE line (sale_id int, part_id int, supplier_id int, qty int, price numeric(8,2))",
    "INSERT INTO region SELECT i, 'r' || i FROM generate_series(1, 2) AS i",
    "INSERT INTO nation SELECT i, 1 + i % 2, 'n' || i FROM generate_series(1, 4) AS i",
    "INSERT INTO supplier SELECT i, 1 + i % 4 FROM generate_series(1, 6) AS i",
    "INSERT INTO customer SELECT i, 1 + i % 4 FROM generate_series(1, 6) AS i",
    "INSERT INTO part SELECT i, 'k' || i % 2 FROM generate_series(1, 5) AS i",
    "INSERT INTO offer SELECT p, s, p + s / 4.0 FROM generate_series(1, 5) AS p,"
    " generate_series(1, 6) AS s WHERE (p + s) % 3 > 0",
    "INSERT INTO sale SELECT i, 1 + i % 6, '2025-10-01'::date + i * 20"
    " FROM generate_series(1, 12) AS i",
    "INSERT INTO line SELECT 1 + i % 12, 1 + i % 5, 1 + i % 6, i % 7, i * 1.25"
    " FROM generate_series(1, 60) AS i",
)

VOLUMES = """
    SELECT n1.name AS seller, n2.name AS buyer, extract(year FROM sale.day) AS year,
           sum(line.price) AS volume
      FROM supplier, line, sale, customer, nation AS n1, nation AS n2
     WHERE supplier.id = line.supplier_id AND sale.id = line.sale_id
       AND customer.id = sale.customer_id AND n1.id = supplier.nation_id
       AND n2.id = customer.nation_id
       AND ((n1.name = 'n1' AND n2.name = 'n2') OR (n1.name = 'n2' AND n2.name = 'n1')
            OR n1.name = n2.name)
     GROUP BY n1.name, n2.name, extract(year FROM sale.day)
"""
SHARES = """
    SELECT year, sum(CASE WHEN nation = 'n2' THEN volume ELSE 0 END) / sum(volume) AS share
      FROM (SELECT extract(year FROM sale.day) AS year, line.price * line.qty AS volume,
                   n2.name AS nation
              FROM part, supplier, line, sale, customer, nation AS n1, nation AS n2, region
             WHERE part.id = line.part_id AND supplier.id = line.supplier_id
               AND line.sale_id = sale.id AND sale.customer_id = customer.id
               AND customer.nation_id = n1.id AND n1.region_id = region.id
               AND region.name = 'r1' AND supplier.nation_id = n2.id AND part.kind = 'k1'
               AND line.qty > 0) AS volumes
     GROUP BY year
"""
PROFITS = """
    SELECT nation.name, extract(year FROM sale.day) AS year,
           sum(line.price - offer.cost * line.qty) AS profit
      FROM part, supplier, line, offer, sale, nation
     WHERE supplier.id = line.supplier_id AND offer.supplier_id = line.supplier_id
       AND offer.part_id = line.part_id AND part.id = line.part_id AND sale.id = line.sale_id
       AND supplier.nation_id = nation.id AND part.kind LIKE '%1%'
     GROUP BY nation.name, extract(year FROM sale.day)
"""


def trade(lab: Lab, query: str) -> None:
    """Delete on two tables of one subtree, then move keys everywhere, then bring rows back."""
    lab.run(*TRADE)
    lab.create("s", query)

    lab.window("DELETE FROM sale WHERE id IN (2, 3)", "DELETE FROM line WHERE sale_id IN (3, 5)")
    lab.window("DELETE FROM supplier WHERE id = 2", "DELETE FROM offer WHERE supplier_id IN (2, 4)")
    lab.window(
        "UPDATE nation SET id = id + 10 WHERE id = 2",
        "DELETE FROM customer WHERE nation_id = 2",
        "UPDATE supplier SET nation_id = 12 WHERE nation_id = 3",
    )
    lab.window(
        "UPDATE line SET supplier_id = 1 + supplier_id % 6, qty = qty + 1 WHERE part_id < 3",
        "UPDATE sale SET customer_id = 4, day = day + 100 WHERE id % 2 = 0",
        "UPDATE part SET kind = 'k1' WHERE id = 2",
        "INSERT INTO supplier VALUES (2, 1)",
        "INSERT INTO offer VALUES (1, 2, 3.50), (2, 4, 0.25)",
    )
    lab.window("DELETE FROM nation WHERE id = 1", "DELETE FROM line WHERE supplier_id = 1")


def test_p05_one_table_at_two_places_of_six(lab: Lab) -> None:
    trade(lab, VOLUMES)


def test_p05_eight_tables(lab: Lab) -> None:
    trade(lab, SHARES)


def test_p05_six_tables_with_a_key_of_two_columns(lab: Lab) -> None:
    trade(lab, PROFITS)
