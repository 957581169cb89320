-- One cycle of changes; ":cycle" stands for its number, from 1. Which rows change is drawn by a
-- hash of key and cycle, so every run makes the same changes. New keys start at 1000000 for orders,
-- 100000 for the other tables. What a cycle adds on purpose for one query, a later cycle removes.

-- New rows: orders like those that exist, with their lines.
BEGIN;

WITH drawn AS MATERIALIZED (
    SELECT *, 1000000 + :cycle * 1000 + row_number() OVER (ORDER BY o_orderkey) AS new_key
      FROM (SELECT * FROM orders ORDER BY md5('copy :cycle ' || o_orderkey) LIMIT 20) AS o
), copied AS (
    INSERT INTO orders
    SELECT new_key, 1 + o_custkey % 1500, o_orderstatus, o_totalprice, o_orderdate,
           o_orderpriority, o_clerk, o_shippriority, o_comment
      FROM drawn
)
INSERT INTO lineitem
SELECT new_key, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax,
       l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate, l_shipinstruct,
       l_shipmode, l_comment
  FROM drawn JOIN lineitem ON l_orderkey = o_orderkey;

-- A customer without orders, with a balance above the average (Q13, Q22).
INSERT INTO customer
SELECT 100000 + :cycle, 'Customer#' || 100000 + :cycle, 'new address', :cycle % 25,
       (ARRAY[13, 31, 23, 29, 30, 18, 17])[1 + :cycle % 7] || '-555-0100', 9000 + :cycle,
       'BUILDING', 'new';

-- A supplier of the nations that the queries ask for, and its stock.
INSERT INTO supplier
SELECT 100000 + :cycle, 'Supplier#' || 100000 + :cycle, 'new address',
       (ARRAY[6, 7, 3, 20, 8])[1 + :cycle % 5], '27-555-0100', 5000 + :cycle,
       CASE WHEN :cycle % 2 = 0 THEN 'Customer and other Complaints' ELSE 'none' END;

INSERT INTO part
SELECT 100000 + :cycle * 10 + i,
       CASE i WHEN 1 THEN 'forest new' ELSE 'new green' END, 'Manufacturer#1',
       (ARRAY['Brand#23', 'Brand#12', 'Brand#34'])[i],
       (ARRAY['SMALL PLATED BRASS', 'ECONOMY ANODIZED STEEL', 'PROMO BURNISHED TIN'])[i],
       CASE i WHEN 1 THEN 15 ELSE 3 END, (ARRAY['MED BOX', 'SM BOX', 'LG BOX'])[i], 1000, 'new'
  FROM generate_series(1, 3) AS i;

INSERT INTO partsupp
SELECT 100000 + :cycle * 10 + i, s_suppkey, 5000 + :cycle, 100 + :cycle, 'new'
  FROM generate_series(1, 3) AS i,
       (SELECT s_suppkey FROM supplier
         WHERE s_nationkey IN (3, 6, 7) ORDER BY md5('stock :cycle ' || s_suppkey) LIMIT 4) AS s;

-- Orders that the selective queries see: each row is an order with its lines' facts.
CREATE TEMPORARY TABLE aimed ON COMMIT DROP AS
SELECT 1000000 + :cycle * 1000 + 100 + row_number() OVER () AS order_key, a.*
  FROM (VALUES
        -- Q3: large revenue just before the date, from a customer in BUILDING
        ('P', date '1995-03-10', date '1995-03-20', 1, 2.00, 450000.00, 'N', 'BUILDING', 6, 6),
        -- Q4, Q10: returned, in the autumn of 1993
        ('F', date '1993-10-05', date '1993-11-05', 1, 20.00, 420000.00, 'R', 'MACHINERY', 8, 8),
        ('F', date '1993-08-05', date '1993-09-05', 1, 20.00, 1000.00, 'R', 'MACHINERY', 8, 8),
        -- Q5, Q6, Q12, Q20: 1994, customer and supplier in one nation of ASIA
        ('F', date '1994-02-05', date '1994-03-05', 2, 10.00, 9000.00, 'A', 'MACHINERY', 8, 8),
        ('F', date '1994-02-06', date '1994-03-06', 2, 10.00, 9000.00, 'A', 'MACHINERY', 3, 3),
        -- Q7: between FRANCE and GERMANY
        ('O', date '1995-05-05', date '1995-06-05', 1, 10.00, 8000.00, 'N', 'FURNITURE', 6, 7),
        -- Q8: a customer of AMERICA, a supplier of BRAZIL
        ('O', date '1996-05-05', date '1996-06-05', 3, 10.00, 7000.00, 'N', 'FURNITURE', 1, 2),
        -- Q14: September 1995
        ('O', date '1995-08-20', date '1995-09-10', 3, 10.00, 5000.00, 'N', 'FURNITURE', 4, 5),
        -- Q15: one supplier far ahead in early 1996
        ('O', date '1996-01-20', date '1996-02-10', 1, 10.00, 3000000.00, 'N', 'FURNITURE', 4, 5),
        -- Q18: more than 300 pieces
        ('O', date '1997-01-20', date '1997-02-10', 8, 45.00, 4000.00, 'N', 'FURNITURE', 4, 5),
        -- Q21: two suppliers, of whom the one in SAUDI ARABIA is late
        ('F', date '1994-05-20', date '1994-06-10', 2, 10.00, 4000.00, 'A', 'FURNITURE', 4, 20))
       AS a (status, ordered, shipped, lines, quantity, price, flag, segment, customer_nation,
             supplier_nation);

INSERT INTO orders
SELECT order_key,
       (SELECT c_custkey FROM customer
         WHERE c_nationkey = customer_nation AND (c_mktsegment = segment OR segment <> 'BUILDING')
         ORDER BY md5('aimed :cycle ' || c_custkey) LIMIT 1),
       status, price * lines + :cycle, ordered,
       (ARRAY['1-URGENT', '2-HIGH', '3-MEDIUM', '5-LOW'])[1 + (order_key + :cycle) % 4],
       'Clerk#1', 0, 'aimed'
  FROM aimed;

INSERT INTO lineitem
SELECT order_key, 100000 + :cycle * 10 + 1 + n % 3,
       CASE WHEN n = 1 THEN
           (SELECT s_suppkey FROM supplier WHERE s_nationkey = supplier_nation
             ORDER BY md5('aimed :cycle ' || s_suppkey) LIMIT 1)
       ELSE 1 + (:cycle * 7 + n) % 100 END,
       n, quantity, price + :cycle, 0.06, 0.02, flag, CASE WHEN status = 'O' THEN 'O' ELSE 'F' END,
       shipped, shipped + 5, shipped + CASE WHEN n = 1 THEN 10 ELSE 2 END,
       'DELIVER IN PERSON', (ARRAY['MAIL', 'SHIP', 'AIR'])[1 + (order_key + n) % 3], 'aimed'
  FROM aimed, generate_series(1, lines) AS n;

-- Q17, Q19, Q20: small quantities of this cycle's parts.
INSERT INTO lineitem
SELECT 1000000 + :cycle * 1000 + 101, ps_partkey, ps_suppkey,
       100 + row_number() OVER (ORDER BY ps_partkey, ps_suppkey), ps_partkey % 10 * 10 - 9,
       2000 + :cycle, 0.01, 0.02, 'N', 'O', date '1994-06-01', date '1994-06-05',
       date '1994-06-03', 'DELIVER IN PERSON', 'AIR', 'aimed'
  FROM partsupp
 WHERE ps_partkey BETWEEN 100000 + :cycle * 10 + 1 AND 100000 + :cycle * 10 + 3;

COMMIT;

-- Rows leave, on one side of a join and on both sides at once.
BEGIN;

CREATE TEMPORARY TABLE leaving ON COMMIT DROP AS
SELECT o_orderkey FROM orders ORDER BY md5('leave :cycle ' || o_orderkey) LIMIT 15;

DELETE FROM lineitem USING leaving WHERE l_orderkey = o_orderkey;
DELETE FROM orders USING leaving WHERE orders.o_orderkey = leaving.o_orderkey;

-- What the cycle before last added.
DELETE FROM orders WHERE o_orderkey BETWEEN 1000000 + (:cycle - 2) * 1000 + 101
                                        AND 1000000 + (:cycle - 2) * 1000 + 999;
DELETE FROM lineitem WHERE l_orderkey BETWEEN 1000000 + (:cycle - 2) * 1000 + 101
                                          AND 1000000 + (:cycle - 2) * 1000 + 999;
DELETE FROM part WHERE p_partkey BETWEEN 100000 + (:cycle - 2) * 10 + 1
                                     AND 100000 + (:cycle - 2) * 10 + 3;
DELETE FROM partsupp WHERE ps_partkey BETWEEN 100000 + (:cycle - 2) * 10 + 1
                                          AND 100000 + (:cycle - 2) * 10 + 3;
DELETE FROM supplier WHERE s_suppkey = 100000 + :cycle - 3;

-- A customer with everything that belongs to it; lines without their order; orders without lines.
DELETE FROM lineitem USING orders
 WHERE l_orderkey = o_orderkey AND o_custkey IN (
       SELECT c_custkey FROM customer ORDER BY md5('customer :cycle ' || c_custkey) LIMIT 2);
DELETE FROM orders WHERE o_custkey IN (
       SELECT c_custkey FROM customer ORDER BY md5('customer :cycle ' || c_custkey) LIMIT 2);
DELETE FROM customer WHERE c_custkey IN (
       SELECT c_custkey FROM customer ORDER BY md5('customer :cycle ' || c_custkey) LIMIT 1);
DELETE FROM lineitem WHERE l_orderkey IN (
       SELECT o_orderkey FROM orders ORDER BY md5('lines :cycle ' || o_orderkey) LIMIT 4);
DELETE FROM orders WHERE o_orderkey IN (
       SELECT o_orderkey FROM orders ORDER BY md5('order :cycle ' || o_orderkey) LIMIT 4);
DELETE FROM partsupp WHERE (ps_partkey, ps_suppkey) IN (
       SELECT ps_partkey, ps_suppkey FROM partsupp
        ORDER BY md5('partsupp :cycle ' || ps_partkey || ' ' || ps_suppkey) LIMIT 4);

COMMIT;

-- Join keys move.
BEGIN;

UPDATE orders SET o_custkey = 1 + (o_custkey + 677 * :cycle) % 1500
 WHERE o_orderkey IN (
       SELECT o_orderkey FROM orders ORDER BY md5('custkey :cycle ' || o_orderkey) LIMIT 12);
UPDATE orders SET o_custkey = 100000 + :cycle - 1
 WHERE o_orderkey IN (
       SELECT o_orderkey FROM orders ORDER BY md5('newcust :cycle ' || o_orderkey) LIMIT 3);

-- To another part and one of its suppliers.
UPDATE lineitem SET l_partkey = ps_partkey, l_suppkey = ps_suppkey
  FROM (SELECT l_orderkey AS order_key, l_linenumber AS line_number,
               1 + (l_partkey + 991) % 2000 AS part_key
          FROM lineitem
         ORDER BY md5('partkey :cycle ' || l_orderkey || ' ' || l_linenumber) LIMIT 15) AS drawn,
       LATERAL (SELECT ps_partkey, ps_suppkey FROM partsupp WHERE ps_partkey = part_key
                 ORDER BY ps_suppkey LIMIT 1) AS target
 WHERE l_orderkey = order_key AND l_linenumber = line_number;

-- To another order, which is half of the line's primary key.
UPDATE lineitem SET l_orderkey = new_key, l_linenumber = l_linenumber + 10 * :cycle
  FROM (SELECT l_orderkey AS order_key, l_linenumber AS line_number,
               (SELECT o_orderkey FROM orders
                 WHERE o_orderkey > l_orderkey ORDER BY o_orderkey LIMIT 1) AS new_key
          FROM lineitem
         ORDER BY md5('orderkey :cycle ' || l_orderkey || ' ' || l_linenumber) LIMIT 6) AS drawn
 WHERE l_orderkey = order_key AND l_linenumber = line_number AND new_key IS NOT NULL;

UPDATE supplier SET s_nationkey = (s_nationkey + 7) % 25
 WHERE s_suppkey IN (
       SELECT s_suppkey FROM supplier ORDER BY md5('nation :cycle ' || s_suppkey) LIMIT 2);
UPDATE customer SET c_nationkey = (c_nationkey + 11) % 25
 WHERE c_custkey IN (
       SELECT c_custkey FROM customer ORDER BY md5('nation :cycle ' || c_custkey) LIMIT 6);
UPDATE partsupp SET ps_suppkey = 100000 + :cycle, ps_supplycost = ps_supplycost / 2
 WHERE (ps_partkey, ps_suppkey) IN (
       SELECT ps_partkey, min(ps_suppkey) FROM partsupp GROUP BY ps_partkey
        ORDER BY md5('suppkey :cycle ' || ps_partkey) LIMIT 6);

-- A nation changes its region, and a part its key, which leaves its lines behind.
UPDATE nation SET n_regionkey = (n_regionkey + 1) % 5 WHERE n_nationkey = (:cycle * 7) % 25;
UPDATE part SET p_partkey = p_partkey + 50000
 WHERE p_partkey IN (
       SELECT p_partkey FROM part WHERE p_partkey <= 2000
        ORDER BY md5('partkey :cycle ' || p_partkey) LIMIT 2);
UPDATE part SET p_partkey = p_partkey - 50000
 WHERE p_partkey BETWEEN 50001 AND 52000 AND p_partkey % 2 = :cycle % 2;

COMMIT;

-- Groups and predicates: the same rows, seen by other queries or counted elsewhere.
BEGIN;

UPDATE lineitem
   SET l_returnflag = (ARRAY['A', 'N', 'R'])[1 + (l_linenumber + :cycle) % 3],
       l_linestatus = CASE WHEN l_linestatus = 'O' THEN 'F' ELSE 'O' END
 WHERE (l_orderkey, l_linenumber) IN (
       SELECT l_orderkey, l_linenumber FROM lineitem
        ORDER BY md5('flag :cycle ' || l_orderkey || ' ' || l_linenumber) LIMIT 12);
UPDATE lineitem
   SET l_shipmode = (ARRAY['MAIL', 'SHIP', 'AIR', 'RAIL'])[1 + (l_linenumber + :cycle) % 4],
       l_discount = 0.05 + l_linenumber % 4 * 0.01,
       l_quantity = l_quantity / 2
 WHERE (l_orderkey, l_linenumber) IN (
       SELECT l_orderkey, l_linenumber FROM lineitem
        WHERE l_shipdate BETWEEN '1993-12-01' AND '1995-02-01'
        ORDER BY md5('mode :cycle ' || l_orderkey || ' ' || l_linenumber) LIMIT 15);
-- By a season: across the boundaries of every query with a date.
UPDATE lineitem
   SET l_shipdate = l_shipdate + 97, l_receiptdate = l_receiptdate + 90,
       l_commitdate = l_commitdate + 95
 WHERE (l_orderkey, l_linenumber) IN (
       SELECT l_orderkey, l_linenumber FROM lineitem
        ORDER BY md5('season :cycle ' || l_orderkey || ' ' || l_linenumber) LIMIT 20);
UPDATE orders SET o_orderdate = o_orderdate - 97
 WHERE o_orderkey IN (
       SELECT o_orderkey FROM orders WHERE o_orderdate BETWEEN '1993-06-01' AND '1997-03-01'
        ORDER BY md5('season :cycle ' || o_orderkey) LIMIT 15);
UPDATE orders
   SET o_orderpriority = (ARRAY['1-URGENT', '2-HIGH', '3-MEDIUM', '5-LOW'])[1 + :cycle % 4]
 WHERE o_orderkey IN (
       SELECT o_orderkey FROM orders WHERE o_orderdate BETWEEN '1993-07-01' AND '1994-12-31'
        ORDER BY md5('priority :cycle ' || o_orderkey) LIMIT 15);
UPDATE orders
   SET o_orderstatus = CASE WHEN o_orderstatus = 'F' THEN 'O' ELSE 'F' END,
       o_comment = CASE WHEN o_comment LIKE '%special%requests%' THEN 'plain'
                        ELSE 'special :cycle requests' END
 WHERE o_orderkey IN (
       SELECT o_orderkey FROM orders ORDER BY md5('status :cycle ' || o_orderkey) LIMIT 15);
UPDATE part
   SET p_brand = (ARRAY['Brand#23', 'Brand#12', 'Brand#34', 'Brand#45'])[1 + p_partkey % 4],
       p_container = (ARRAY['MED BOX', 'SM CASE', 'LG PACK', 'JUMBO JAR'])[1 + p_partkey % 4],
       p_size = (ARRAY[15, 3, 49, 9])[1 + p_partkey / 4 % 4],
       p_type = (ARRAY['LARGE PLATED BRASS', 'ECONOMY ANODIZED STEEL', 'PROMO PLATED TIN',
                       'MEDIUM POLISHED TIN'])[1 + p_partkey / 16 % 4]
 WHERE p_partkey IN (
       SELECT p_partkey FROM part ORDER BY md5('brand :cycle ' || p_partkey) LIMIT 8);
UPDATE part SET p_name = (ARRAY['forest green', 'plain', 'green'])[1 + :cycle % 3]
 WHERE p_partkey IN (
       SELECT p_partkey FROM part ORDER BY md5('name :cycle ' || p_partkey) LIMIT 6);
UPDATE partsupp SET ps_supplycost = 1 + :cycle, ps_availqty = 9999 - ps_availqty
 WHERE (ps_partkey, ps_suppkey) IN (
       SELECT ps_partkey, ps_suppkey FROM partsupp
        ORDER BY md5('cost :cycle ' || ps_partkey || ' ' || ps_suppkey) LIMIT 15);
UPDATE customer
   SET c_mktsegment = CASE WHEN c_mktsegment = 'BUILDING' THEN 'MACHINERY' ELSE 'BUILDING' END,
       c_acctbal = c_acctbal * -1, c_phone = 10 + (c_custkey + :cycle) % 25 || '-555-0101'
 WHERE c_custkey IN (
       SELECT c_custkey FROM customer ORDER BY md5('segment :cycle ' || c_custkey) LIMIT 10);
UPDATE supplier
   SET s_acctbal = s_acctbal + 1,
       s_comment = CASE WHEN s_comment LIKE '%Customer%Complaints%' THEN 'content'
                        ELSE 'Customer :cycle Complaints' END
 WHERE s_suppkey IN (
       SELECT s_suppkey FROM supplier ORDER BY md5('comment :cycle ' || s_suppkey) LIMIT 3);

COMMIT;

-- Changes that cancel out inside the window, in transactions of their own.
INSERT INTO orders SELECT 9000000, 1, 'F', 1, '1994-01-01', '1-URGENT', 'Clerk#1', 0, 'passing';
UPDATE supplier SET s_nationkey = s_nationkey + 1 WHERE s_suppkey <= 2;
DELETE FROM orders WHERE o_orderkey = 9000000;
UPDATE supplier SET s_nationkey = s_nationkey - 1 WHERE s_suppkey <= 2;
