-- One window of changes: about ":share" of the rows of every table but nation and region. ":round"
-- makes each window another one. A quarter of the changed orders is new and a quarter leaves, with
-- their lines; the other half, and most changes of the other tables, are updates. Rows are drawn by a
-- hash of key and round, so that every run makes the same changes. A table that was not loaded stays
-- empty.

CREATE OR REPLACE FUNCTION pg_temp.draw(key bigint, kind integer) RETURNS double precision
LANGUAGE sql IMMUTABLE
RETURN (hashint8extended(key, :round * 100 + kind) & 1073741823) / 1073741824.0;

BEGIN;

CREATE TEMPORARY TABLE drawn ON COMMIT DROP AS
SELECT o_orderkey, draw
  FROM (SELECT o_orderkey, pg_temp.draw(o_orderkey, 1) AS draw FROM orders) AS o
 WHERE draw < :share * 1.75;

CREATE TEMPORARY TABLE copied ON COMMIT DROP AS
SELECT o.*, (SELECT max(o_orderkey) FROM orders) + row_number() OVER () AS new_key
  FROM orders AS o JOIN drawn USING (o_orderkey)
 WHERE draw < :share * 0.25;

INSERT INTO orders
SELECT new_key, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_orderpriority, o_clerk,
       o_shippriority, o_comment
  FROM copied;

INSERT INTO lineitem
SELECT new_key, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax,
       l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate, l_shipinstruct,
       l_shipmode, l_comment
  FROM copied JOIN lineitem ON l_orderkey = o_orderkey;

DELETE FROM lineitem USING drawn
 WHERE l_orderkey = o_orderkey AND draw >= :share * 0.25 AND draw < :share * 0.5;
DELETE FROM orders USING drawn
 WHERE orders.o_orderkey = drawn.o_orderkey AND draw >= :share * 0.25 AND draw < :share * 0.5;

COMMIT;

BEGIN;

CREATE TEMPORARY TABLE drawn ON COMMIT DROP AS
SELECT o_orderkey, draw
  FROM (SELECT o_orderkey, pg_temp.draw(o_orderkey, 2) AS draw FROM orders) AS o
 WHERE draw < :share;

-- Every drawn order gets another price; a few move to another customer, date or priority.
UPDATE orders
   SET o_totalprice = o_totalprice + 1,
       o_custkey = CASE WHEN drawn.o_orderkey % 4 = 0
                        THEN 1 + (o_custkey + 7919 * :round)
                               % (SELECT COALESCE(max(c_custkey), 1000) FROM customer)
                        ELSE o_custkey END,
       o_orderdate = CASE WHEN drawn.o_orderkey % 4 = 1
                          THEN o_orderdate + 30 ELSE o_orderdate END,
       o_orderpriority = CASE WHEN drawn.o_orderkey % 4 = 2 THEN '1-URGENT' ELSE o_orderpriority END
  FROM drawn
 WHERE orders.o_orderkey = drawn.o_orderkey AND draw < :share * 0.5;

-- Lines of other orders: quantity and price; some another supplier of the part (if it is
-- still there), dates, flags.
UPDATE lineitem
   SET l_quantity = 1 + l_quantity % 50,
       l_extendedprice = l_extendedprice + 10,
       l_suppkey = CASE WHEN l_linenumber % 4 = 0
                        THEN COALESCE((SELECT ps_suppkey FROM partsupp
                                        WHERE ps_partkey = l_partkey
                                        ORDER BY ps_suppkey LIMIT 1), l_suppkey)
                        ELSE l_suppkey END,
       l_shipdate = CASE WHEN l_linenumber % 4 = 1 THEN l_shipdate + 10 ELSE l_shipdate END,
       l_receiptdate = CASE WHEN l_linenumber % 4 = 1 THEN l_receiptdate + 20
                            ELSE l_receiptdate END,
       l_returnflag = CASE WHEN l_linenumber % 4 = 2 THEN 'R' ELSE l_returnflag END
  FROM drawn
 WHERE l_orderkey = o_orderkey AND draw >= :share * 0.5;

COMMIT;

BEGIN;

CREATE TEMPORARY TABLE drawn ON COMMIT DROP AS
SELECT c_custkey, draw
  FROM (SELECT c_custkey, pg_temp.draw(c_custkey, 3) AS draw FROM customer) AS c
 WHERE draw < :share;

INSERT INTO customer
SELECT (SELECT max(c_custkey) FROM customer) + row_number() OVER (), c_name, c_address, c_nationkey,
       c_phone, c_acctbal, c_mktsegment, c_comment
  FROM customer JOIN drawn USING (c_custkey) WHERE draw < :share * 0.1;
DELETE FROM customer USING drawn
 WHERE customer.c_custkey = drawn.c_custkey AND draw < :share * 0.1;
UPDATE customer
   SET c_acctbal = c_acctbal + 10,
       c_mktsegment = CASE WHEN c.c_custkey % 5 = 0 THEN 'BUILDING' ELSE c_mktsegment END,
       c_nationkey = CASE WHEN c.c_custkey % 5 = 1 THEN (c_nationkey + 1) % 25 ELSE c_nationkey END
  FROM drawn AS c
 WHERE customer.c_custkey = c.c_custkey AND draw >= :share * 0.1;

COMMIT;

BEGIN;

CREATE TEMPORARY TABLE drawn ON COMMIT DROP AS
SELECT p_partkey, draw
  FROM (SELECT p_partkey, pg_temp.draw(p_partkey, 4) AS draw FROM part) AS p
 WHERE draw < :share;

CREATE TEMPORARY TABLE copied ON COMMIT DROP AS
SELECT p.*, (SELECT max(p_partkey) FROM part) + row_number() OVER () AS new_key
  FROM part AS p JOIN drawn USING (p_partkey)
 WHERE draw < :share * 0.1;

INSERT INTO part
SELECT new_key, p_name, p_mfgr, p_brand, p_type, p_size, p_container, p_retailprice, p_comment
  FROM copied;
INSERT INTO partsupp
SELECT new_key, ps_suppkey, ps_availqty, ps_supplycost, ps_comment
  FROM copied JOIN partsupp ON ps_partkey = p_partkey;
DELETE FROM partsupp USING drawn
 WHERE ps_partkey = p_partkey AND draw < :share * 0.1;
DELETE FROM part USING drawn
 WHERE part.p_partkey = drawn.p_partkey AND draw < :share * 0.1;
UPDATE part
   SET p_retailprice = p_retailprice + 1,
       p_brand = CASE WHEN d.p_partkey % 5 = 0 THEN 'Brand#23' ELSE p_brand END,
       p_size = CASE WHEN d.p_partkey % 5 = 1 THEN 15 ELSE p_size END,
       p_container = CASE WHEN d.p_partkey % 5 = 2 THEN 'MED BOX' ELSE p_container END
  FROM drawn AS d
 WHERE part.p_partkey = d.p_partkey AND draw >= :share * 0.1;
UPDATE partsupp
   SET ps_availqty = 1 + ps_availqty % 9999, ps_supplycost = ps_supplycost + 1
  FROM (SELECT p_partkey FROM part WHERE pg_temp.draw(p_partkey, 5) < :share * 0.9) AS p
 WHERE ps_partkey = p_partkey;

COMMIT;

BEGIN;

CREATE TEMPORARY TABLE drawn ON COMMIT DROP AS
SELECT s_suppkey, draw
  FROM (SELECT s_suppkey, pg_temp.draw(s_suppkey, 6) AS draw FROM supplier) AS s
 WHERE draw < :share;

INSERT INTO supplier
SELECT new_key, 'Supplier#' || new_key, s_address, s_nationkey, s_phone, s_acctbal, s_comment
  FROM (SELECT *, (SELECT max(s_suppkey) FROM supplier) + row_number() OVER () AS new_key
          FROM supplier JOIN drawn USING (s_suppkey) WHERE draw < :share * 0.1) AS s;
DELETE FROM supplier USING drawn
 WHERE supplier.s_suppkey = drawn.s_suppkey AND draw < :share * 0.1;
UPDATE supplier
   SET s_acctbal = s_acctbal + 10,
       s_nationkey = CASE WHEN d.s_suppkey % 5 = 0 THEN (s_nationkey + 1) % 25 ELSE s_nationkey END
  FROM drawn AS d
 WHERE supplier.s_suppkey = d.s_suppkey AND draw >= :share * 0.1;

COMMIT;
