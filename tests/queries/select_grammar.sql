-- PostgreSQL's documentation of SELECT, branch by branch (test_select_grammar.py).
--
-- The tables and windows, and the meaning of the marks, are those of tools/constructs.sql.
-- "since" is the first version of PostgreSQL that knows the syntax.  Statements end at a blank line.

-- group: the statement

-- construct: VALUES with ORDER BY, LIMIT and OFFSET
-- differential: yes
-- constant: yes
VALUES (1, 'one'), (2, 'two'), (3, NULL) ORDER BY 1 DESC LIMIT 2 OFFSET 1

-- construct: TABLE
-- differential: yes
TABLE customers

-- construct: TABLE ONLY
-- differential: yes
TABLE ONLY customers

-- construct: SELECT in parentheses, with clauses behind them
-- differential: yes
((SELECT id, quantity FROM orders) ORDER BY id) LIMIT 5

-- construct: SELECT without FROM
-- differential: yes
-- constant: yes
SELECT 1 AS a, 'x' AS b

-- construct: SELECT ALL
-- differential: yes
SELECT ALL quantity FROM orders

-- construct: output names without AS
-- differential: yes
SELECT id nr, quantity "How many" FROM orders

-- construct: TABLE in a set operation
-- differential: yes
TABLE archived_orders UNION ALL (TABLE archived_orders)

-- construct: INTO
-- differential: no
-- code: ST107
SELECT id INTO made_up FROM orders

-- construct: FOR UPDATE
-- differential: no
-- code: ST107
SELECT id FROM orders FOR UPDATE

-- construct: FOR NO KEY UPDATE ... SKIP LOCKED
-- differential: no
-- code: ST107
SELECT id FROM orders FOR NO KEY UPDATE OF orders SKIP LOCKED

-- construct: FOR SHARE NOWAIT
-- differential: no
-- code: ST107
SELECT id FROM orders FOR SHARE NOWAIT

-- construct: FOR KEY SHARE
-- differential: no
-- code: ST107
SELECT id FROM orders FOR KEY SHARE

-- group: WITH

-- construct: WITH ... AS MATERIALIZED
-- differential: yes
WITH big AS MATERIALIZED (SELECT id, quantity FROM orders WHERE quantity > 2) SELECT id FROM big

-- construct: WITH ... AS NOT MATERIALIZED
-- differential: yes
WITH big AS NOT MATERIALIZED (SELECT id, quantity FROM orders WHERE quantity > 2) SELECT id FROM big

-- construct: WITH and column names
-- differential: yes
WITH big (nr, many) AS (SELECT id, quantity FROM orders) SELECT nr FROM big WHERE many > 2

-- construct: WITH inside WITH
-- differential: yes
WITH a AS (WITH b AS (SELECT id FROM orders) SELECT id FROM b) SELECT id FROM a

-- construct: WITH over VALUES
-- differential: yes
WITH v (n) AS (VALUES (1), (2)) SELECT o.id FROM orders AS o JOIN v ON v.n = o.quantity

-- construct: WITH that is not used
-- differential: yes
WITH unused AS (SELECT 1 FROM customers) SELECT id FROM orders

-- construct: WITH inside a subquery
-- differential: yes
SELECT id FROM orders WHERE quantity > (WITH a AS (SELECT avg(quantity) AS q FROM orders) SELECT q
FROM a)

-- construct: WITH RECURSIVE ... UNION
-- differential: yes
WITH RECURSIVE up (id, boss) AS (SELECT id, boss_id FROM customers UNION SELECT u.id, c.boss_id FROM
up AS u JOIN customers AS c ON c.id = u.boss) SELECT id, boss FROM up

-- construct: WITH RECURSIVE that does not recurse
-- differential: yes
WITH RECURSIVE a AS (SELECT id FROM orders) SELECT id FROM a

-- construct: SEARCH DEPTH FIRST
-- differential: yes
WITH RECURSIVE up (id, boss) AS (SELECT id, boss_id FROM customers WHERE boss_id IS NULL UNION ALL
SELECT c.id, c.boss_id FROM customers AS c JOIN up AS u ON u.id = c.boss_id WHERE c.id > c.boss_id)
SEARCH DEPTH FIRST BY id SET path SELECT id, path::text AS path FROM up

-- construct: SEARCH BREADTH FIRST
-- differential: yes
WITH RECURSIVE up (id, boss) AS (SELECT id, boss_id FROM customers WHERE boss_id IS NULL UNION ALL
SELECT c.id, c.boss_id FROM customers AS c JOIN up AS u ON u.id = c.boss_id WHERE c.id > c.boss_id)
SEARCH BREADTH FIRST BY id SET path SELECT id, path::text AS path FROM up

-- construct: SEARCH and CYCLE by several columns
-- differential: yes
WITH RECURSIVE up (id, boss) AS (SELECT id, boss_id FROM customers UNION ALL SELECT u.id, c.boss_id
FROM up AS u JOIN customers AS c ON c.id = u.boss) SEARCH BREADTH FIRST BY id, boss SET rank CYCLE
id, boss SET looped USING path SELECT u.id, u.looped, cardinality(u.path) AS steps, row_number() OVER
(ORDER BY u.rank, u.id, u.boss) AS place, o.id AS o FROM up AS u LEFT JOIN orders AS o ON
o.customer_id = u.boss

-- construct: CYCLE
-- differential: yes
WITH RECURSIVE up (id, boss) AS (SELECT id, boss_id FROM customers UNION ALL SELECT u.id, c.boss_id
FROM up AS u JOIN customers AS c ON c.id = u.boss) CYCLE boss SET looped USING path
SELECT id, boss, looped FROM up

-- construct: CYCLE ... TO ... DEFAULT
-- differential: yes
WITH RECURSIVE up (id, boss) AS (SELECT id, boss_id FROM customers UNION ALL SELECT u.id, c.boss_id
FROM up AS u JOIN customers AS c ON c.id = u.boss) CYCLE boss SET looped TO 'Y' DEFAULT 'N' USING
path SELECT id, boss, looped FROM up

-- construct: WITH that changes rows
-- differential: no
-- code: ST107
WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone

-- group: FROM

-- construct: ONLY, with and without parentheses
-- differential: yes
SELECT o.id, c.name FROM ONLY orders AS o JOIN ONLY (customers) AS c ON c.id = o.customer_id

-- construct: a star behind a table
-- differential: yes
SELECT id FROM orders * WHERE quantity > 1

-- construct: a system column
-- differential: no
-- code: ST107
SELECT id, tableoid::regclass::text AS t FROM orders

-- construct: names for the columns of a table
-- differential: yes
SELECT c.nr, c.called FROM customers AS c (nr, called) WHERE c.nr > 2

-- construct: names for the columns of a derived table
-- differential: yes
SELECT d.a FROM (SELECT id, quantity FROM orders) AS d (a, b) WHERE d.b > 1

-- construct: a derived table without a name
-- differential: yes
-- since: 16
SELECT id FROM (SELECT id FROM orders)

-- construct: VALUES without a name
-- differential: yes
-- since: 16
SELECT o.id FROM orders AS o JOIN (VALUES (1), (2)) ON column1 = o.quantity

-- construct: a join in parentheses
-- differential: yes
SELECT o.id, c.name FROM products AS p JOIN (orders AS o JOIN customers AS c ON c.id =
o.customer_id) ON p.id = o.product_id

-- construct: a join in parentheses with a name
-- differential: yes
SELECT j.name FROM (orders AS o JOIN customers AS c ON c.id = o.customer_id) AS j

-- construct: USING with a name
-- differential: yes
SELECT j.id, p.title FROM customers JOIN products AS p USING (id) AS j

-- construct: NATURAL JOIN and NATURAL RIGHT JOIN
-- differential: yes
SELECT id, note FROM orders NATURAL JOIN archived_orders NATURAL RIGHT JOIN customers

-- construct: CROSS JOIN
-- differential: yes
SELECT c.id, p.title FROM customers AS c CROSS JOIN products AS p

-- construct: LATERAL behind a comma and in a LEFT JOIN
-- differential: yes
SELECT c.id, x.id AS o, y.n FROM customers AS c, LATERAL (SELECT id FROM orders AS o WHERE
o.customer_id = c.id) AS x LEFT JOIN LATERAL (SELECT x.id AS n) AS y ON true

-- construct: RIGHT JOIN in LATERAL
-- differential: yes
SELECT c.id, x.o, x.p FROM customers AS c, LATERAL (SELECT o.id AS o, p.id AS p FROM orders AS o RIGHT
JOIN products AS p ON p.id = o.product_id AND o.customer_id = c.id) AS x

-- construct: FULL JOIN in LATERAL
-- differential: yes
SELECT c.id, x.o, x.p FROM customers AS c, LATERAL (SELECT o.id AS o, p.id AS p FROM (SELECT * FROM
orders WHERE customer_id = c.id) AS o FULL JOIN products AS p ON p.id = o.product_id) AS x

-- construct: FULL JOIN ... USING in LATERAL
-- differential: no
SELECT c.id, x.i, x.p FROM customers AS c, LATERAL (SELECT id AS i, p.title AS p FROM (SELECT * FROM
orders WHERE customer_id = c.id) AS o FULL JOIN products AS p USING (id)) AS x

-- construct: LEFT JOIN on an inequality in LATERAL
-- differential: yes
SELECT c.id, x.o, x.p FROM customers AS c, LATERAL (SELECT o.id AS o, p.id AS p FROM orders AS o LEFT
JOIN products AS p ON p.id < o.product_id WHERE o.customer_id = c.id) AS x

-- construct: JOIN ... USING in LATERAL
-- differential: yes
SELECT c.id, x.q FROM customers AS c, LATERAL (SELECT o.quantity AS q FROM orders AS o JOIN products
AS p USING (id) WHERE o.customer_id = c.id) AS x

-- construct: NATURAL JOIN in a dependent subquery
-- differential: yes
SELECT c.id, (SELECT count(*) FROM (SELECT id, quantity FROM orders WHERE customer_id = c.id) AS o
NATURAL LEFT JOIN products AS p WHERE p.weight > c.boss_id) AS n FROM customers AS c

-- construct: RIGHT JOIN in EXISTS
-- differential: yes
SELECT c.id FROM customers AS c WHERE EXISTS (SELECT 1 FROM orders AS o RIGHT JOIN products AS p ON
p.id = o.product_id AND o.customer_id = c.id WHERE o.id IS NULL AND p.weight > c.id)

-- construct: a subquery over both sides in ON of an outer join
-- differential: yes
SELECT c.id, o.id AS o FROM customers AS c LEFT JOIN orders AS o ON o.customer_id = c.id AND EXISTS
(SELECT 1 FROM products AS p WHERE p.id = o.product_id AND p.weight > c.id)

-- construct: subqueries over one side each in ON of a FULL JOIN
-- differential: yes
SELECT c.id, o.id AS o FROM customers AS c FULL JOIN orders AS o ON o.customer_id = c.id AND
o.quantity > ALL (SELECT id FROM products WHERE weight < 9) AND c.id IN (SELECT boss_id FROM customers)

-- construct: a subquery in ON of an outer join in a dependent subquery
-- differential: yes
SELECT c.id, (SELECT count(*) FROM orders AS o LEFT JOIN products AS p ON p.id = o.product_id AND
p.weight > (SELECT avg(d.score) FROM customers AS d WHERE d.id <> c.id) WHERE o.customer_id = c.id AND
p.id IS NULL) AS n FROM customers AS c

-- construct: TABLESAMPLE ... REPEATABLE
-- differential: no
-- code: ST107
SELECT id FROM orders TABLESAMPLE BERNOULLI (10) REPEATABLE (1)

-- construct: a function of constants
-- differential: yes
SELECT o.id, g FROM orders AS o, generate_series(1, 2) AS g

-- construct: WITH ORDINALITY, without names
-- differential: yes
SELECT o.id, g.* FROM orders AS o, generate_series(1, o.quantity) WITH ORDINALITY AS g

-- construct: unnest of several arrays
-- differential: yes
SELECT o.id, u.a, u.b FROM orders AS o, unnest(o.tags, ARRAY['x', 'y', 'z']) AS u (a, b)

-- construct: ROWS FROM
-- differential: yes
SELECT o.id, r.a, r.b FROM orders AS o, ROWS FROM (unnest(o.tags), generate_series(1, o.quantity))
AS r (a, b)

-- construct: ROWS FROM ... WITH ORDINALITY
-- differential: yes
SELECT o.id, r.* FROM orders AS o CROSS JOIN LATERAL ROWS FROM (unnest(o.tags),
generate_series(1, o.quantity)) WITH ORDINALITY AS r (a, b, nr)

-- construct: a function with a list of column definitions
-- differential: yes
SELECT o.id, r.n FROM orders AS o, jsonb_to_record(o.facts) AS r (n jsonb)

-- construct: ROWS FROM with a list of column definitions
-- differential: no
SELECT o.id, r.* FROM orders AS o, ROWS FROM (jsonb_to_record(o.facts) AS (n jsonb),
generate_series(1, 2)) AS r (doc, nr)

-- construct: LEFT JOIN LATERAL a function
-- differential: yes
SELECT o.id, t.tag FROM orders AS o LEFT JOIN LATERAL unnest(o.tags) AS t (tag) ON t.tag > 1

-- construct: a function of a value as a table
-- differential: yes
SELECT o.id, u.up FROM orders AS o, upper(o.note) AS u (up)

-- construct: a keyword as a table
-- differential: no
SELECT o.id, u.who IS NOT NULL AS known FROM orders AS o, current_schema AS u (who)

-- construct: JSON_TABLE
-- differential: yes
-- since: 17
SELECT o.id, j.* FROM orders AS o, JSON_TABLE(o.facts, '$.n[*]' COLUMNS (nr FOR ORDINALITY, v int
PATH '$' DEFAULT 0 ON ERROR, e boolean EXISTS PATH '$.x')) AS j

-- construct: JSON_TABLE with NESTED PATH and PASSING
-- differential: yes
-- since: 17
SELECT o.id, j.v, j.w FROM orders AS o LEFT JOIN JSON_TABLE(o.facts, '$' PASSING 1 AS one
COLUMNS (v text FORMAT JSON PATH '$.n', NESTED PATH '$.n[*]' COLUMNS (w int PATH '$'))) AS j ON true

-- construct: XMLTABLE
-- differential: yes
SELECT o.id, x.* FROM orders AS o, XMLTABLE('/a/b' PASSING xmlparse(document '<a><b c="' || o.id ||
'">x</b></a>') COLUMNS nr FOR ORDINALITY, c int PATH '@c' NOT NULL, d text PATH '.' DEFAULT '-') AS x

-- construct: XMLTABLE with XMLNAMESPACES
-- differential: yes
SELECT o.id, x.c FROM orders AS o, XMLTABLE(XMLNAMESPACES('urn:x' AS x), '/x:a' PASSING
xmlparse(document '<a xmlns="urn:x">' || o.id || '</a>') COLUMNS c int PATH '.') AS x

-- group: GROUP BY, HAVING, WINDOW

-- construct: GROUP BY ()
-- differential: yes
SELECT count(*) AS n FROM orders GROUP BY ()

-- construct: GROUP BY DISTINCT
-- differential: yes
SELECT customer_id, product_id, count(*) AS n FROM orders GROUP BY DISTINCT ROLLUP (customer_id,
product_id), ROLLUP (customer_id)

-- construct: GROUP BY ALL of a SELECT
-- differential: yes
SELECT customer_id, count(*) AS n FROM orders GROUP BY ALL customer_id

-- construct: GROUP BY the primary key
-- differential: yes
SELECT c.id, c.name, count(o.id) AS n FROM customers AS c LEFT JOIN orders AS o ON o.customer_id =
c.id GROUP BY c.id

-- construct: grouping sets inside grouping sets
-- differential: yes
SELECT customer_id, product_id, grouping(customer_id, product_id) AS g, count(*) AS n FROM orders
GROUP BY GROUPING SETS ((), CUBE (customer_id, product_id), GROUPING SETS (ROLLUP (customer_id)))

-- construct: composite elements of CUBE and ROLLUP
-- differential: yes
SELECT customer_id, product_id, quantity, count(*) AS n FROM orders GROUP BY CUBE ((customer_id,
product_id), quantity)

-- construct: GROUP BY a row
-- differential: yes
SELECT count(*) AS n, quantity FROM orders GROUP BY ROW(quantity, product_id), quantity

-- construct: GROUP BY a composite value
-- differential: yes
SELECT p, count(o.id) AS n, array_agg(DISTINCT p) AS l FROM products AS p LEFT JOIN orders AS o ON
o.product_id = p.id GROUP BY p

-- construct: composite values in set operations, windows and DISTINCT
-- differential: yes
SELECT a, row_number() OVER (PARTITION BY a) AS n FROM (SELECT DISTINCT c AS a FROM customers AS c
INTERSECT SELECT c FROM customers AS c WHERE score > 3) AS x

-- construct: GROUP BY a composite value whose text is not unique
-- differential: no
SELECT o, count(*) AS n FROM orders AS o GROUP BY o

-- construct: HAVING without GROUP BY
-- differential: yes
SELECT max(quantity) AS m FROM orders HAVING count(*) > 3

-- construct: WINDOW with windows that build on others
-- differential: yes
SELECT id, sum(quantity) OVER (w ORDER BY id) AS s, count(*) OVER v AS n FROM orders WINDOW w AS
(PARTITION BY customer_id), v AS (w ORDER BY product_id RANGE UNBOUNDED PRECEDING)

-- construct: ROWS frames with EXCLUDE GROUP
-- differential: yes
SELECT id, sum(quantity) OVER (ORDER BY product_id, id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING
EXCLUDE GROUP) AS s FROM orders

-- construct: RANGE frames with EXCLUDE TIES
-- differential: yes
SELECT id, sum(quantity) OVER (ORDER BY product_id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE
TIES) AS s FROM orders

-- construct: GROUPS frames with EXCLUDE NO OTHERS
-- differential: yes
SELECT id, count(*) OVER (PARTITION BY customer_id ORDER BY product_id GROUPS BETWEEN CURRENT ROW AND
UNBOUNDED FOLLOWING EXCLUDE NO OTHERS) AS n FROM orders

-- construct: a subquery as the bound of a frame
-- differential: no
SELECT id, sum(quantity) OVER (ORDER BY id ROWS BETWEEN (SELECT count(*) FROM products) PRECEDING AND
CURRENT ROW) AS s FROM orders

-- construct: a window function with FILTER
-- differential: yes
SELECT id, count(*) FILTER (WHERE quantity > 1) OVER (PARTITION BY customer_id) AS n FROM orders

-- group: set operations and the end

-- construct: DISTINCT behind UNION, INTERSECT and EXCEPT
-- differential: yes
SELECT id FROM orders UNION DISTINCT SELECT id FROM archived_orders EXCEPT DISTINCT (SELECT id FROM
customers INTERSECT DISTINCT SELECT id FROM products)

-- construct: columns named part and group, several times
-- differential: yes
SELECT customer_id AS part, note AS "group" FROM orders UNION ALL SELECT customer_id AS part, note AS
"group" FROM orders UNION SELECT a.part, a."group" FROM (SELECT id AS part, note AS "group" FROM
archived_orders) AS a

-- construct: ORDER BY ... USING
-- differential: yes
SELECT id, quantity FROM orders ORDER BY quantity USING >, id USING < LIMIT 3

-- construct: ORDER BY ... NULLS FIRST and NULLS LAST
-- differential: yes
SELECT id, quantity FROM orders ORDER BY quantity DESC NULLS LAST, id DESC NULLS FIRST LIMIT 4

-- construct: ORDER BY an expression, a name and a position
-- differential: yes
SELECT id, quantity AS q FROM orders ORDER BY -id, q, 2 LIMIT 4

-- construct: ORDER BY a collation
-- differential: yes
SELECT id, note FROM orders ORDER BY note COLLATE "C", id LIMIT 4

-- construct: LIMIT ALL
-- differential: yes
SELECT id FROM orders ORDER BY id LIMIT ALL

-- construct: LIMIT ALL with OFFSET
-- differential: yes
SELECT id FROM orders ORDER BY id LIMIT ALL OFFSET 2

-- construct: LIMIT NULL
-- differential: yes
SELECT id FROM orders ORDER BY id LIMIT NULL

-- construct: LIMIT 0
-- differential: yes
(SELECT id FROM orders ORDER BY id LIMIT 0) UNION ALL SELECT id FROM customers

-- construct: LIMIT an expression
-- differential: yes
SELECT id FROM orders ORDER BY id DESC LIMIT 1 + 2

-- construct: LIMIT a subquery
-- differential: yes
SELECT id FROM orders ORDER BY id LIMIT (SELECT count(*) / 2 FROM customers)

-- construct: OFFSET and FETCH by subqueries
-- differential: yes
SELECT id FROM orders ORDER BY id OFFSET (SELECT min(id) FROM customers) ROWS FETCH FIRST (SELECT
count(*) / 2 FROM products) ROWS ONLY

-- construct: LIMIT by an outer value
-- differential: yes
SELECT c.id, x.o FROM customers AS c, LATERAL (SELECT id AS o FROM orders WHERE customer_id = c.id
ORDER BY id LIMIT c.id % 3) AS x

-- construct: OFFSET ... ROWS
-- differential: yes
SELECT id FROM orders ORDER BY id DESC OFFSET 1 ROW

-- construct: OFFSET ... ROWS FETCH NEXT ... ROWS ONLY
-- differential: yes
SELECT id FROM orders ORDER BY id DESC OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY

-- construct: FETCH FIRST ROW ONLY
-- differential: yes
SELECT id FROM orders ORDER BY id DESC FETCH FIRST ROW ONLY

-- construct: LIMIT of a side of a set operation
-- differential: yes
(SELECT id FROM orders ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM customers ORDER BY id DESC
LIMIT 2)

-- construct: DISTINCT ON an expression
-- differential: yes
SELECT DISTINCT ON (quantity % 2, customer_id) customer_id, id FROM orders ORDER BY quantity % 2,
customer_id, id

-- group: expressions

-- construct: a row and its fields
-- differential: yes
SELECT (o).id, (o.*) IS NOT NULL AS whole FROM orders AS o

-- construct: comparisons of rows with the row of a subquery
-- differential: yes
SELECT o.id, (o.quantity, o.product_id) = (SELECT max(id), max(boss_id) FROM customers) AS top,
ROW(o.customer_id, o.quantity) >= (SELECT boss_id, id FROM customers AS c WHERE c.id = o.product_id) AS
later FROM orders AS o

-- construct: ordered comparisons of rows with ANY and ALL
-- differential: yes
SELECT id FROM orders AS o WHERE ROW(customer_id, product_id) > ALL (SELECT id, boss_id FROM customers
WHERE id < 2) OR ROW(id, quantity) <= ANY (SELECT boss_id, id FROM customers)

-- construct: the row of a derived table as json
-- differential: yes
SELECT c.region, json_agg(x ORDER BY x DESC) FILTER (WHERE c.id > 2)::text AS j, count(x) AS n FROM
customers AS c LEFT JOIN (SELECT id, note AS "a ""note\", customer_id, tags FROM orders WHERE quantity >
1) AS x ON x.customer_id = c.id GROUP BY c.region

-- construct: the row of a derived table as json of several kinds
-- differential: yes
SELECT c.id, row_to_json(x)::text AS j, to_jsonb(x) AS k, json_build_object('x', x)::text AS l FROM
customers AS c LEFT JOIN (SELECT note, customer_id FROM orders WHERE quantity > 1) AS x ON
x.customer_id = c.id

-- construct: the row of a derived table as text
-- differential: yes
SELECT c.id, string_agg(x::text, ';' ORDER BY x.id) AS s FROM customers AS c LEFT JOIN (SELECT id, note,
customer_id FROM orders) AS x ON x.customer_id = c.id GROUP BY c.id

-- construct: the row of a derived table as json and as text
-- differential: no
SELECT row_to_json(x)::text AS j, x::text AS t FROM (SELECT id, note FROM orders) AS x

-- construct: comparisons of rows
-- differential: yes
SELECT id FROM orders WHERE (customer_id, quantity) > (2, 1) AND ROW(id, note) IS DISTINCT FROM
ROW(4, 'note 0')

-- construct: elements and slices of arrays
-- differential: yes
SELECT id, tags[1] AS a, tags[1:1] AS b, tags[:2] AS c, (ARRAY[[1, 2], [3, 4]])[2][1] AS d FROM orders

-- construct: subscripts of jsonb
-- differential: yes
SELECT id, facts['n'][0] AS n FROM orders

-- construct: ARRAY of a subquery
-- differential: yes
SELECT id, ARRAY(SELECT o.id FROM orders AS o WHERE o.customer_id = c.id ORDER BY o.id) AS os FROM
customers AS c

-- construct: a subquery without columns
-- differential: yes
SELECT id FROM customers AS c WHERE EXISTS (SELECT FROM orders AS o WHERE o.customer_id = c.id)

-- construct: OPERATOR()
-- differential: yes
SELECT id, quantity OPERATOR(pg_catalog.+) 1 AS q FROM orders

-- construct: BETWEEN SYMMETRIC, IS UNKNOWN, IS NOT DISTINCT FROM, ISNULL
-- differential: yes
SELECT id, quantity BETWEEN SYMMETRIC 3 AND 1 AS b, (quantity > 1) IS UNKNOWN AS u, note ISNULL AS i
FROM orders WHERE note IS NOT DISTINCT FROM note

-- construct: LIKE ... ESCAPE, SIMILAR TO, ILIKE ALL
-- differential: yes
SELECT id FROM orders WHERE note LIKE 'n!ote%' ESCAPE '!' OR note SIMILAR TO '%(1|2)' OR note ILIKE
ALL (ARRAY['N%', '%3'])

-- construct: EXTRACT, SUBSTRING, TRIM, POSITION, OVERLAY
-- differential: yes
SELECT id, EXTRACT(DOW FROM ordered_on) AS d, SUBSTRING(note FROM 2 FOR 3) AS s, TRIM(BOTH 'n' FROM
note) AS t, POSITION('e' IN note) AS p, OVERLAY(note PLACING 'X' FROM 1 FOR 1) AS o FROM orders

-- construct: SUBSTRING ... SIMILAR, COLLATION FOR, NORMALIZE
-- differential: yes
SELECT id, SUBSTRING(note SIMILAR '#"note#"%' ESCAPE '#') AS s, COLLATION FOR (note) AS c,
NORMALIZE(note, NFC) AS n, note IS NFC NORMALIZED AS i FROM orders

-- construct: CAST in its three forms, and typed literals
-- differential: yes
SELECT id, CAST(quantity AS text) AS a, quantity::numeric(5, 1) AS b, int4(quantity) AS c, date
'2026-01-02' - ordered_on AS d, INTERVAL '1' DAY AS e FROM orders

-- construct: AT TIME ZONE and OVERLAPS
-- differential: yes
SELECT id, ordered_on::timestamp AT TIME ZONE 'UTC' AS t, (ordered_on, ordered_on + 2) OVERLAPS (date
'2026-01-02', INTERVAL '1 day') AS o FROM orders

-- construct: GREATEST, LEAST, NULLIF, COALESCE
-- differential: yes
SELECT id, GREATEST(quantity, product_id) AS g, LEAST(quantity, 2) AS l, NULLIF(quantity, 2) AS n,
COALESCE(note, 'none') AS c FROM orders

-- construct: both forms of CASE
-- differential: yes
SELECT id, CASE quantity WHEN 1 THEN 'a' WHEN 2 THEN 'b' END AS a, CASE WHEN quantity > 2 THEN 1 ELSE
0 END AS b FROM orders

-- construct: VARIADIC, and arguments by name
-- differential: yes
SELECT id, concat_ws(',', VARIADIC ARRAY[note, 'x']) AS v, make_interval(days => quantity) AS i FROM
orders

-- construct: an aggregate with ALL, ORDER BY and FILTER
-- differential: yes
SELECT customer_id, count(ALL note) AS a, string_agg(note, ',' ORDER BY id DESC) FILTER (WHERE
quantity > 1) AS s FROM orders GROUP BY customer_id

-- construct: an aggregate of the outer query in a subquery
-- differential: yes
SELECT customer_id, (SELECT max(p.id) FROM products AS p WHERE p.id <= count(o.id)) AS m FROM orders
AS o GROUP BY customer_id

-- construct: an aggregate of the outer query that groups it
-- differential: yes
SELECT (SELECT count(*) FROM orders AS o WHERE o.customer_id = max(c.id)) AS n FROM customers AS c

-- construct: a window function over an outer value in a subquery
-- differential: yes
SELECT o.id, (SELECT sum(o.quantity) OVER (ORDER BY p.id) FROM products AS p ORDER BY p.id DESC LIMIT 1)
AS s, (SELECT max(x.l) FROM (SELECT lag(o.id) OVER (ORDER BY p.id) AS l FROM products AS p) AS x) AS l
FROM orders AS o

-- construct: DISTINCT before several arguments
-- differential: yes
SELECT customer_id, corr(DISTINCT quantity, product_id) FILTER (WHERE id > 3) AS c, regr_count(DISTINCT
id, quantity) AS r, json_object_agg(DISTINCT id, note ORDER BY id, note)::text AS o FROM orders GROUP BY
ROLLUP (customer_id)

-- construct: ordered-set and hypothetical-set aggregates
-- differential: yes
SELECT customer_id, percentile_disc(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY quantity) AS p, rank(3)
WITHIN GROUP (ORDER BY quantity) AS r FROM orders GROUP BY customer_id

-- construct: XMLELEMENT, XMLFOREST, XMLCONCAT, XMLPI, XMLROOT
-- differential: yes
SELECT id, XMLELEMENT(NAME a, XMLATTRIBUTES(quantity AS q), note, XMLFOREST(id AS i), XMLPI(NAME
php))::text AS x, XMLSERIALIZE(CONTENT XMLROOT(XMLCONCAT(xmlparse(content '<a/>')), VERSION '1.0') AS
text) AS r FROM orders

-- construct: IS DOCUMENT, XMLEXISTS, XMLPARSE
-- differential: yes
SELECT id, XMLPARSE(CONTENT '<a>' || id || '</a>') IS DOCUMENT AS d, XMLEXISTS('//a' PASSING BY VALUE
XMLPARSE(CONTENT '<a/>')) AS e FROM orders

-- construct: JSON_OBJECT, JSON_ARRAY, IS JSON
-- differential: yes
-- since: 16
SELECT id, JSON_OBJECT('id' VALUE id, 'note': note ABSENT ON NULL WITH UNIQUE KEYS RETURNING jsonb) AS
o, JSON_ARRAY(id, quantity NULL ON NULL)::text AS a, note IS JSON OBJECT WITH UNIQUE KEYS AS j FROM
orders

-- construct: JSON_ARRAY of a subquery
-- differential: yes
-- since: 16
SELECT id, JSON_ARRAY(SELECT o.id FROM orders AS o WHERE o.customer_id = c.id ORDER BY o.id RETURNING
jsonb) AS a FROM customers AS c

-- construct: JSON_OBJECTAGG and JSON_ARRAYAGG
-- differential: yes
-- since: 16
SELECT customer_id, JSON_OBJECTAGG(id: note ABSENT ON NULL WITH UNIQUE KEYS RETURNING jsonb) AS o,
JSON_ARRAYAGG(quantity ORDER BY id NULL ON NULL RETURNING jsonb) AS a FROM orders GROUP BY customer_id

-- construct: JSON_QUERY, JSON_VALUE, JSON_EXISTS
-- differential: yes
-- since: 17
SELECT id, JSON_QUERY(facts, '$.n' WITH CONDITIONAL WRAPPER KEEP QUOTES EMPTY ARRAY ON EMPTY) AS q,
JSON_VALUE(facts, '$.n[$i]' PASSING 0 AS i RETURNING int NULL ON EMPTY DEFAULT -1 ON ERROR) AS v,
JSON_EXISTS(facts, 'strict $.n[1]' FALSE ON ERROR) AS e FROM orders

-- construct: JSON, JSON_SCALAR, JSON_SERIALIZE
-- differential: yes
-- since: 17
SELECT id, JSON_SCALAR(quantity)::text AS s, JSON_SERIALIZE(JSON('{"a": 1}' FORMAT JSON) RETURNING
text) AS t FROM orders

-- construct: numbers in other bases and with underscores
-- differential: yes
-- since: 16
SELECT id, quantity + 0x1F + 0o17 + 0b11 + 1_000 AS n FROM orders

-- construct: ANY_VALUE
-- differential: yes
-- since: 16
SELECT quantity, any_value(quantity) AS a FROM orders GROUP BY quantity

-- construct: AT LOCAL
-- differential: yes
-- since: 17
SELECT id, ordered_on::timestamp AT LOCAL IS NOT NULL AS t FROM orders

-- construct: MERGE_ACTION and RETURNING
-- differential: no
-- code: ST101
MERGE INTO orders AS o USING customers AS c ON c.id = o.id WHEN MATCHED THEN DELETE
