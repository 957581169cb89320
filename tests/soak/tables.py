"""Six tables, and stream tables that between them read every one."""

from __future__ import annotations

WRITERS = 8
KEYS = 300  # of each writer, in each table

SOURCES = """
    CREATE TABLE customers (id int PRIMARY KEY, region int, name text);
    CREATE TABLE orders (id int PRIMARY KEY, customer int, status text, amount numeric(10, 2));
    CREATE INDEX ON orders (customer);
    CREATE TABLE lines (
        order_id int REFERENCES orders ON DELETE CASCADE, line int, product int, quantity int,
        PRIMARY KEY (order_id, line)
    );
    CREATE INDEX ON lines (product);
    CREATE TABLE stock (product int PRIMARY KEY, quantity int, note text);
    CREATE TABLE notes (kind int, body text);
    CREATE TABLE events (id int, kind int, amount int) PARTITION BY HASH (id);
    CREATE TABLE events_0 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE events_1 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 1)
        PARTITION BY RANGE (kind);
    CREATE TABLE events_1_low PARTITION OF events_1 FOR VALUES FROM (MINVALUE) TO (5);
    CREATE TABLE events_1_high PARTITION OF events_1 FOR VALUES FROM (5) TO (MAXVALUE);
"""

QUERIES = {
    "revenue": "SELECT c.region, count(*) AS orders, sum(o.amount) AS amount"
    " FROM orders AS o JOIN customers AS c ON c.id = o.customer GROUP BY c.region",
    "sleepers": "SELECT c.id, c.name FROM customers AS c"
    " WHERE NOT EXISTS (SELECT FROM orders AS o WHERE o.customer = c.id)",
    "needed": "SELECT s.product, s.quantity AS there, sum(l.quantity) AS needed"
    " FROM stock AS s LEFT JOIN lines AS l ON l.product = s.product"
    " GROUP BY s.product, s.quantity",
    "all_notes": "SELECT kind, body FROM notes",
    "noted": "SELECT kind, count(*) AS n, count(DISTINCT body) AS bodies FROM notes GROUP BY kind",
    "happened": "SELECT kind, count(*) AS n, sum(amount) AS amount, max(amount) AS most"
    " FROM events GROUP BY kind",
    "statuses": "SELECT DISTINCT o.status, l.product FROM orders AS o"
    " JOIN lines AS l ON l.order_id = o.id",
    "busiest": "SELECT max(n) AS n FROM happened",
}
