-- Which SQL is maintained incrementally: one example per construct, each run by a test.
--
-- "differential" is the word of docs/operators.md. tests/queries/test_support.py holds it to the truth:
-- an example that says yes goes through the windows below in strict DIFFERENTIAL mode, on PostgreSQL,
-- and one that says no must be refused with its code (ST102 if none is given). To support a construct,
-- flip its word; the tests fail until that is right.  "constant: yes" is an example that no change
-- reaches.  Statements end at a blank line.

-- schema:

CREATE TABLE customers (id int PRIMARY KEY, name text, region text, boss_id int, score numeric(10,
2))

CREATE TABLE orders (id int PRIMARY KEY, customer_id int, product_id int, quantity int, price
numeric(10, 2), note text, ordered_on date, tags int[], facts jsonb)

CREATE TABLE products (id int PRIMARY KEY, title text, weight int)

CREATE TABLE archived_orders (id int, customer_id int, quantity int, note text)

CREATE VIEW big_orders AS SELECT id, customer_id, quantity FROM orders WHERE quantity > 2

INSERT INTO customers SELECT i, 'name ' || i, (ARRAY['north', 'south', NULL])[1 + i % 3], nullif(i /
2, 0), i * 1.5 FROM generate_series(1, 8) AS i

INSERT INTO products SELECT i, 'title ' || i % 3, i * 4 FROM generate_series(1, 5) AS i

INSERT INTO orders SELECT i, nullif(i % 9, 0), nullif(i % 6, 0), i % 5, i * 1.25, 'note ' || i % 4,
date '2026-01-01' + i % 3, ARRAY[i, i % 2], jsonb_build_object('n', jsonb_build_array(i, i % 3))
FROM generate_series(1, 24) AS i

INSERT INTO archived_orders SELECT i % 7, i % 5, i % 3, 'note ' || i % 4 FROM generate_series(1, 14)
AS i

CREATE FUNCTION chain_step(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS
$$ SELECT concat($1 || ' > ', $2) $$

CREATE AGGREGATE chain(text) (sfunc = chain_step, stype = text)

CREATE AGGREGATE total(numeric) (sfunc = numeric_add, stype = numeric, initcond = '0', msfunc =
numeric_add, minvfunc = numeric_sub, mstype = numeric, minitcond = '0')

-- window:

INSERT INTO customers VALUES (20, 'name 20', 'east', 1, 7), (21, 'x', NULL, NULL, NULL)

INSERT INTO orders VALUES (40, 20, 2, 9, 3, 'note 1', '2026-01-02', '{40,1}', '{"n": [40, 7]}'),
(41, 3, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (42, NULL, 1, 4, 12.5, 'note 9', '2026-02-01',
'{}', '{"n": []}')

UPDATE orders SET customer_id = 2, quantity = quantity + 3 WHERE id % 5 = 0

UPDATE customers SET region = 'north', boss_id = 3 WHERE id IN (2, 6)

INSERT INTO archived_orders VALUES (2, 2, 2, 'note 2'), (2, 2, 2, 'note 2'), (99, 1, 1, 'z')

UPDATE products SET weight = weight + 1, title = 'title 1' WHERE id = 2

-- window:

DELETE FROM orders WHERE id IN (3, 12, 40)

DELETE FROM customers WHERE id IN (3, 4)

UPDATE orders SET note = 'note 0', tags = '{7,7}', facts = '{"n": [1]}' WHERE id < 8

DELETE FROM archived_orders WHERE id = 2

DELETE FROM products WHERE id = 1

UPDATE customers SET id = 30 WHERE id = 20

-- group: rows and expressions

-- construct: SELECT list, WHERE
-- differential: yes
SELECT id, note FROM orders WHERE quantity > 2

-- construct: any function over one table
-- differential: yes
-- how: PostgreSQL evaluates it when it reads
SELECT id, upper(note) AS note, facts -> 'n' AS n, note ~ '[13]' AS odd, date_trunc('month',
ordered_on) AS month FROM orders WHERE tags @> '{1}'

-- construct: CASE, COALESCE, arithmetic and comparisons across tables
-- differential: yes
-- how: expressions with the same meaning on Spark: [sql-support.md](sql-support.md)
SELECT o.id, CASE WHEN o.quantity > p.weight THEN 1 ELSE 0 END AS heavy FROM orders AS o JOIN
products AS p ON p.id = o.product_id WHERE o.quantity * p.weight > 20

-- construct: any other function or operator across tables
-- differential: yes
-- how: PostgreSQL computes the stage
SELECT o.id, c.name FROM orders AS o JOIN customers AS c ON c.id = o.customer_id WHERE o.note !~
c.name

-- construct: quotients of numerics across tables
-- differential: yes
-- how: PostgreSQL computes the stage
SELECT o.customer_id, sum(o.price / p.weight) AS s FROM orders AS o JOIN products AS p ON p.id =
o.product_id WHERE p.weight <> 0 GROUP BY o.customer_id

-- construct: joins by arrays, ranges, intervals, jsonb
-- differential: yes
-- how: PostgreSQL computes the stage
SELECT o.id, p.id AS other FROM orders AS o JOIN orders AS p ON o.tags = p.tags AND o.id < p.id

-- construct: any function across tables in the outermost select list
-- differential: yes
-- how: PostgreSQL evaluates it when it applies the result
SELECT o.id, md5(c.name || o.note) AS code FROM orders AS o JOIN customers AS c ON c.id =
o.customer_id

-- construct: ORDER BY without LIMIT
-- differential: yes
-- how: no effect
SELECT id FROM orders ORDER BY quantity

-- construct: SELECT without FROM
-- differential: yes
-- constant: yes
SELECT 1 AS one, 'x'::text AS x

-- group: joins

-- construct: JOIN ... ON equality
-- differential: yes
SELECT o.id, c.name FROM orders AS o JOIN customers AS c ON c.id = o.customer_id

-- construct: JOIN ... USING
-- differential: yes
SELECT id, name, weight FROM customers JOIN (SELECT id, weight FROM products) AS p USING (id)

-- construct: NATURAL JOIN
-- differential: yes
SELECT id, title, name FROM customers NATURAL JOIN products

-- construct: CROSS JOIN
-- differential: yes
-- how: the other side is read whole
SELECT c.id, p.title FROM customers AS c CROSS JOIN products AS p

-- construct: comma list
-- differential: yes
SELECT o.id, c.name FROM orders AS o, customers AS c WHERE c.id = o.customer_id

-- construct: self-join
-- differential: yes
SELECT a.id, b.name AS boss FROM customers AS a JOIN customers AS b ON b.id = a.boss_id

-- construct: inner join on <, BETWEEN, <>
-- differential: yes
-- how: the other side is read whole
SELECT o.id, c.name FROM orders AS o JOIN customers AS c ON o.quantity BETWEEN c.id AND c.boss_id

-- construct: LEFT JOIN on an equality
-- differential: yes
-- how: counts keys on both sides
SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer_id

-- construct: RIGHT JOIN on an equality
-- differential: yes
-- how: counts keys on both sides
SELECT o.id, c.name FROM orders AS o RIGHT JOIN customers AS c ON c.id = o.customer_id

-- construct: FULL JOIN on an equality
-- differential: yes
-- how: counts keys on both sides
SELECT o.id, c.name FROM orders AS o FULL JOIN customers AS c ON c.id = o.customer_id

-- construct: outer join with further conditions on one side
-- differential: yes
SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer_id AND c.score >
3 AND o.quantity > 1

-- construct: LEFT JOIN ... USING
-- differential: yes
SELECT id, name, weight FROM customers LEFT JOIN (SELECT id, weight FROM products) AS p USING (id)

-- construct: several outer joins
-- differential: yes
SELECT o.id, c.name, p.title FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer_id LEFT
JOIN products AS p ON p.id = o.product_id

-- construct: LEFT JOIN without an equality
-- differential: yes
SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id < o.quantity

-- construct: LEFT JOIN with an equality and a condition across
-- differential: yes
SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer_id AND c.boss_id
< o.quantity

-- construct: RIGHT JOIN without an equality
-- differential: yes
SELECT o.id, c.name FROM orders AS o RIGHT JOIN customers AS c ON c.id < o.quantity

-- construct: RIGHT JOIN ... USING
-- differential: yes
SELECT id, name, weight FROM customers RIGHT JOIN (SELECT id, weight FROM products) AS p USING (id)

-- construct: FULL JOIN ... USING
-- differential: yes
SELECT id, name, weight FROM customers FULL JOIN (SELECT id, weight FROM products) AS p USING (id)

-- construct: NATURAL LEFT JOIN
-- differential: yes
SELECT id, name, title FROM customers NATURAL LEFT JOIN products

-- construct: NATURAL FULL JOIN
-- differential: yes
SELECT id, name, title FROM customers NATURAL FULL JOIN products

-- group: subqueries

-- construct: EXISTS
-- differential: yes
SELECT id FROM customers AS c WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.customer_id = c.id AND
o.quantity > 2)

-- construct: NOT EXISTS
-- differential: yes
SELECT id FROM customers AS c WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.customer_id =
c.id)

-- construct: IN (SELECT ...)
-- differential: yes
SELECT id FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE quantity > 2)

-- construct: IN with several columns
-- differential: yes
SELECT id FROM orders WHERE (customer_id, quantity) IN (SELECT customer_id, quantity FROM
archived_orders)

-- construct: EXISTS on other conditions than an equality
-- differential: yes
SELECT id FROM customers AS c WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.quantity > c.id)

-- construct: NOT IN
-- differential: yes
SELECT id FROM customers WHERE id NOT IN (SELECT customer_id FROM archived_orders)

-- construct: = ANY, < ANY
-- differential: yes
SELECT id FROM customers WHERE id < ANY (SELECT quantity FROM orders)

-- construct: ALL
-- differential: yes
SELECT id FROM customers WHERE id > ALL (SELECT quantity FROM archived_orders)

-- construct: EXISTS or IN under OR
-- differential: yes
SELECT id FROM customers AS c WHERE score > 9 OR EXISTS (SELECT 1 FROM orders AS o WHERE
o.customer_id = c.id)

-- construct: EXISTS or IN under NOT and AND
-- differential: yes
SELECT id FROM customers AS c WHERE NOT (score > 3 AND EXISTS (SELECT 1 FROM orders AS o
WHERE o.customer_id = c.id AND o.quantity > 4))

-- construct: EXISTS or IN in the select list
-- differential: yes
SELECT id, EXISTS (SELECT 1 FROM orders AS o WHERE o.customer_id = c.id) AS buys FROM customers AS c

-- construct: EXISTS or IN in HAVING
-- differential: yes
SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id HAVING customer_id IN (SELECT id
FROM customers WHERE score > 3)

-- construct: scalar subquery in the select list
-- differential: yes
SELECT id, (SELECT max(quantity) FROM orders) AS top FROM customers

-- construct: correlated scalar subquery
-- differential: yes
SELECT id, (SELECT count(*) FROM orders AS o WHERE o.customer_id = c.id) AS n FROM customers AS c

-- construct: scalar subquery in WHERE
-- differential: yes
SELECT id FROM orders WHERE quantity > (SELECT avg(quantity) FROM archived_orders)

-- construct: scalar subquery in HAVING
-- differential: yes
SELECT customer_id, sum(quantity) AS s FROM orders GROUP BY customer_id HAVING sum(quantity) >
(SELECT avg(quantity) FROM orders)

-- construct: scalar subquery in CASE, COALESCE or a call
-- differential: yes
SELECT id, coalesce(score, (SELECT max(price) FROM orders), 0) AS s FROM customers

-- group: aggregates

-- construct: GROUP BY, count, sum, avg
-- differential: yes
-- how: by addition
SELECT customer_id, count(*) AS n, count(note) AS notes, sum(quantity) AS s, avg(price) AS a FROM
orders GROUP BY customer_id

-- construct: GROUP BY an expression or a position
-- differential: yes
SELECT quantity % 2 AS odd, count(*) AS n FROM orders GROUP BY 1

-- construct: no GROUP BY
-- differential: yes
SELECT count(*) AS n, sum(quantity) AS s FROM orders

-- construct: HAVING
-- differential: yes
SELECT customer_id, sum(quantity) AS s FROM orders GROUP BY customer_id HAVING count(*) > 2

-- construct: aggregates over aggregates
-- differential: yes
SELECT n, count(*) AS customers FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY
customer_id) AS g GROUP BY n

-- construct: aggregates of joins
-- differential: yes
SELECT c.region, sum(o.quantity * p.weight) AS w FROM orders AS o JOIN customers AS c ON c.id =
o.customer_id JOIN products AS p ON p.id = o.product_id GROUP BY c.region

-- construct: min, max
-- differential: yes
-- how: looked up in stored values, by an index
SELECT customer_id, min(note) AS low, max(price) AS high FROM orders GROUP BY customer_id

-- construct: bool_and, bool_or, every
-- differential: yes
-- how: by addition
SELECT customer_id, bool_and(quantity > 1) AS a, bool_or(quantity > 3) AS o, every(price > 5) AS e
FROM orders GROUP BY customer_id

-- construct: bit_and, bit_or, bit_xor
-- differential: yes
-- how: looked up
SELECT customer_id, bit_xor(quantity) AS x, bit_or(quantity) AS b FROM orders GROUP BY customer_id

-- construct: stddev, variance of integers and of numerics with a scale
-- differential: yes
-- how: by addition, up to 14 digits
SELECT customer_id, stddev(price) AS d, var_pop(quantity) AS v FROM orders GROUP BY customer_id

-- construct: stddev, variance of other types, corr, covar, regr
-- differential: yes
-- how: looked up
SELECT customer_id, stddev(price * 2) AS d, regr_count(price, quantity) AS n FROM orders GROUP BY
customer_id

-- construct: string_agg, array_agg, json_agg with ORDER BY
-- differential: yes
-- how: looked up
SELECT customer_id, string_agg(note, ',' ORDER BY id) AS notes, array_agg(quantity ORDER BY id) AS
q, jsonb_agg(note ORDER BY id) AS j FROM orders GROUP BY customer_id

-- construct: json_object_agg, jsonb_object_agg
-- differential: yes
-- how: looked up
SELECT customer_id, jsonb_object_agg(id, note ORDER BY id) AS o FROM orders GROUP BY customer_id

-- construct: mode, percentile_cont, percentile_disc, rank WITHIN GROUP
-- differential: yes
-- how: looked up
SELECT customer_id, percentile_cont(0.5) WITHIN GROUP (ORDER BY price) AS median, mode() WITHIN
GROUP (ORDER BY quantity) AS common FROM orders GROUP BY customer_id

-- construct: DISTINCT inside a call
-- differential: yes
-- how: looked up
SELECT customer_id, count(DISTINCT note) AS n, sum(DISTINCT quantity) AS s FROM orders GROUP BY
customer_id

-- construct: FILTER
-- differential: yes
SELECT customer_id, count(*) FILTER (WHERE quantity > 2) AS n, max(note) FILTER (WHERE price > 9) AS
m FROM orders GROUP BY customer_id

-- construct: GROUPING SETS, ROLLUP, CUBE, GROUPING()
-- differential: yes
-- how: one aggregate per set, up to 64
SELECT customer_id, product_id, grouping(customer_id) AS g, count(*) AS n FROM orders GROUP BY CUBE
(customer_id, product_id)

-- construct: array_agg, string_agg, json_agg and the like without ORDER BY
-- differential: yes
-- how: ordered by their arguments
SELECT customer_id, array_agg(note) AS notes FROM orders GROUP BY customer_id

-- construct: aggregates of users and of extensions
-- differential: yes
-- how: looked up; without ORDER BY ordered by their arguments
SELECT customer_id, chain(note) AS notes, total(price) FILTER (WHERE quantity > 1) AS t FROM orders
GROUP BY customer_id

-- construct: more than 64 grouping sets
-- differential: no
SELECT count(*) AS n FROM orders GROUP BY CUBE (id, customer_id, product_id, quantity, price, note,
ordered_on)

-- group: window functions

-- construct: row_number, rank, dense_rank, ntile
-- differential: yes
SELECT id, row_number() OVER (PARTITION BY customer_id ORDER BY id) AS n FROM orders

-- construct: lag, lead, first_value, nth_value
-- differential: yes
SELECT id, lag(quantity) OVER (PARTITION BY customer_id ORDER BY id) AS before FROM orders

-- construct: aggregates as window functions
-- differential: yes
SELECT id, sum(quantity) OVER (PARTITION BY customer_id ORDER BY id) AS s FROM orders

-- construct: aggregates of users as window functions
-- differential: yes
SELECT id, chain(note) OVER (PARTITION BY customer_id) AS notes, total(price) OVER (ORDER BY id) AS
t FROM orders

-- construct: ROWS frames
-- differential: yes
SELECT id, sum(quantity) OVER (PARTITION BY customer_id ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1
FOLLOWING) AS s FROM orders

-- construct: RANGE frames
-- differential: yes
SELECT id, count(*) OVER (PARTITION BY customer_id ORDER BY ordered_on RANGE BETWEEN '1 day'
PRECEDING AND CURRENT ROW) AS n FROM orders

-- construct: GROUPS frames, EXCLUDE
-- differential: yes
SELECT id, count(*) OVER (ORDER BY quantity GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE
CURRENT ROW) AS n FROM orders

-- construct: without PARTITION BY
-- differential: yes
SELECT id, rank() OVER (ORDER BY quantity) AS r FROM orders

-- construct: several and named windows
-- differential: yes
SELECT id, count(*) OVER w AS n, rank() OVER (ORDER BY quantity) AS r FROM orders WINDOW w AS
(PARTITION BY customer_id)

-- construct: over aggregates
-- differential: yes
SELECT customer_id, sum(quantity) AS s, rank() OVER (ORDER BY sum(quantity) DESC) AS r FROM orders
GROUP BY customer_id

-- construct: inside expressions
-- differential: yes
SELECT id, quantity - avg(quantity) OVER (PARTITION BY customer_id) AS off FROM orders

-- group: set operations, DISTINCT, limits

-- construct: UNION ALL
-- differential: yes
SELECT id FROM orders UNION ALL SELECT id FROM archived_orders

-- construct: UNION
-- differential: yes
-- how: counts each row
SELECT note FROM orders UNION SELECT note FROM archived_orders

-- construct: INTERSECT
-- differential: yes
-- how: counts each row on both sides
SELECT id FROM orders INTERSECT SELECT id FROM archived_orders

-- construct: EXCEPT
-- differential: yes
-- how: counts each row on both sides
SELECT id FROM orders EXCEPT SELECT id FROM archived_orders

-- construct: INTERSECT ALL
-- differential: yes
SELECT id FROM archived_orders INTERSECT ALL SELECT id FROM customers

-- construct: EXCEPT ALL
-- differential: yes
SELECT id FROM archived_orders EXCEPT ALL SELECT id FROM customers

-- construct: SELECT DISTINCT
-- differential: yes
-- how: counts each row
SELECT DISTINCT customer_id, quantity FROM orders

-- construct: DISTINCT ON
-- differential: yes
SELECT DISTINCT ON (customer_id) customer_id, note FROM orders ORDER BY customer_id, id

-- construct: DISTINCT ON, LIMIT, OFFSET and FETCH without ORDER BY, or with ties
-- differential: yes
-- how: ordered by the remaining columns
SELECT note, quantity FROM orders ORDER BY quantity DESC LIMIT 3

-- construct: row_number and the like with ties
-- differential: yes
-- how: ordered by the remaining columns
SELECT note, row_number() OVER (PARTITION BY customer_id ORDER BY quantity) AS n FROM orders

-- construct: ORDER BY ... LIMIT
-- differential: yes
SELECT id, quantity FROM orders ORDER BY quantity DESC, id LIMIT 3

-- construct: OFFSET
-- differential: yes
SELECT id FROM orders ORDER BY id DESC OFFSET 2 LIMIT 3

-- construct: FETCH FIRST
-- differential: yes
SELECT id FROM orders ORDER BY id DESC FETCH FIRST 3 ROWS ONLY

-- construct: FETCH FIRST ... WITH TIES
-- differential: yes
SELECT id, quantity FROM orders ORDER BY quantity DESC FETCH FIRST 3 ROWS WITH TIES

-- group: in FROM and WITH

-- construct: derived tables
-- differential: yes
-- how: inlined
SELECT x.id FROM (SELECT id, quantity FROM orders) AS x WHERE x.quantity > 2

-- construct: views
-- differential: yes
-- how: inlined
SELECT b.id, c.name FROM big_orders AS b JOIN customers AS c ON c.id = b.customer_id

-- construct: WITH
-- differential: yes
-- how: inlined
WITH big AS (SELECT id, customer_id FROM orders WHERE quantity > 2) SELECT c.name, big.id FROM big
JOIN customers AS c ON c.id = big.customer_id

-- construct: WITH used several times
-- differential: yes
-- how: inlined each time
WITH per AS (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) SELECT
a.customer_id, b.n FROM per AS a JOIN per AS b ON b.customer_id = a.n

-- construct: WITH RECURSIVE
-- differential: yes
WITH RECURSIVE above (id, top) AS (SELECT id, id FROM customers WHERE boss_id IS NULL UNION ALL
SELECT c.id, a.top FROM customers AS c JOIN above AS a ON a.id = c.boss_id WHERE c.id > c.boss_id)
SELECT id, top FROM above

-- construct: VALUES in FROM
-- differential: yes
SELECT o.id, v.label FROM orders AS o JOIN (VALUES (1, 'one'), (2, 'two')) AS v (n, label) ON v.n =
o.quantity

-- construct: VALUES as the query
-- differential: yes
-- constant: yes
VALUES (1, 'one'), (2, 'two')

-- construct: LATERAL
-- differential: yes
SELECT c.id, x.n FROM customers AS c, LATERAL (SELECT count(*) AS n FROM orders AS o WHERE
o.customer_id = c.id) AS x

-- construct: LEFT JOIN LATERAL
-- differential: yes
SELECT c.id, x.id AS last FROM customers AS c LEFT JOIN LATERAL (SELECT o.id FROM orders AS o WHERE
o.customer_id = c.id ORDER BY o.id DESC LIMIT 1) AS x ON true

-- construct: unnest
-- differential: yes
SELECT o.id, t.tag FROM orders AS o, unnest(o.tags) AS t (tag)

-- construct: generate_series
-- differential: yes
SELECT o.id, g.n FROM orders AS o, generate_series(1, o.quantity) AS g (n)

-- construct: jsonb_array_elements and the like
-- differential: yes
SELECT o.id, e.value FROM orders AS o, jsonb_array_elements(o.facts -> 'n') AS e (value)

-- construct: WITH ORDINALITY
-- differential: yes
SELECT o.id, t.tag, t.nr FROM orders AS o, unnest(o.tags) WITH ORDINALITY AS t (tag, nr)

-- construct: set-returning function in the select list
-- differential: yes
SELECT id, unnest(tags) AS tag FROM orders

-- group: the current time

-- construct: a condition over one table on now(), current_date or another function of the current time
-- differential: yes
-- how: rows enter and leave as time passes, found by a range of the column
SELECT id FROM orders WHERE ordered_on < current_date

-- construct: FILTER by the current time
-- differential: yes
SELECT customer_id, count(*) FILTER (WHERE ordered_on <= current_date - 7) AS n FROM orders GROUP BY customer_id

-- group: what a change cannot follow

-- construct: the current time in a column, in HAVING or over several tables
-- differential: no
-- how: AUTO recomputes at every refresh
SELECT id, current_date - ordered_on AS days FROM orders

-- construct: volatile functions
-- differential: no
-- how: only FULL, which calls them at every refresh
-- code: ST103
SELECT id, random() AS r FROM orders

-- construct: TABLESAMPLE
-- differential: no
-- how: rejected in every mode
-- code: ST107
SELECT id FROM orders TABLESAMPLE SYSTEM (10)
