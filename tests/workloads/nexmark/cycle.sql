-- The changes of one cycle beside its new events; ":cycle" stands for its number, from 1. Which
-- rows change is drawn by a hash of key and cycle, so every run makes the same changes.

-- Bids that are there twice, and bids that the selection of Q2 sees.
BEGIN;

INSERT INTO bid SELECT * FROM bid ORDER BY md5('twice :cycle ' || bid::text) LIMIT 10;
INSERT INTO bid
SELECT id, 1000 + :cycle, 100 + :cycle, 'Apple', 'https://example.com/',
       date_time + interval '1 second', 'aimed'
  FROM auction WHERE id % 123 = 0;

COMMIT;

-- Rows leave, on one side of a join and on both sides at once.
BEGIN;

DELETE FROM bid WHERE ctid IN (  -- one of those that are there twice
       SELECT min(ctid) FROM bid GROUP BY bid HAVING count(*) > 1
        ORDER BY md5('once :cycle ' || bid::text) LIMIT 4);
DELETE FROM bid WHERE ctid IN (
       SELECT ctid FROM bid ORDER BY md5('leave :cycle ' || bid::text), ctid LIMIT 30);

CREATE TEMPORARY TABLE leaving ON COMMIT DROP AS
SELECT id FROM auction ORDER BY md5('leave :cycle ' || id) LIMIT 5;

DELETE FROM bid USING leaving WHERE auction = id;
DELETE FROM auction USING leaving WHERE auction.id = leaving.id;
DELETE FROM auction WHERE id IN (  -- and leaves its bids behind
       SELECT id FROM auction ORDER BY md5('auction :cycle ' || id) LIMIT 2);
DELETE FROM bid WHERE auction IN (  -- no bid is left
       SELECT id FROM auction ORDER BY md5('bids :cycle ' || id) LIMIT 2);
DELETE FROM auction WHERE seller IN (
       SELECT id FROM person ORDER BY md5('leave :cycle ' || id) LIMIT 2);
DELETE FROM person WHERE id IN (
       SELECT id FROM person ORDER BY md5('leave :cycle ' || id) LIMIT 2);
-- The highest bid of a window, which the next one has to replace.
DELETE FROM bid WHERE (price, date_bin('10 seconds', date_time, timestamp '2020-01-01')) IN (
       SELECT max(price), date_bin('10 seconds', date_time, timestamp '2020-01-01') FROM bid
        GROUP BY 2 ORDER BY md5('highest :cycle ' || max(price)) LIMIT 2);

COMMIT;

-- Join keys move.
BEGIN;

UPDATE bid SET auction = auction + 1
 WHERE ctid IN (SELECT ctid FROM bid ORDER BY md5('auction :cycle ' || bid::text), ctid LIMIT 20);
UPDATE auction SET seller = seller + 1
 WHERE id IN (SELECT id FROM auction ORDER BY md5('seller :cycle ' || id) LIMIT 10);
UPDATE auction SET id = id + 1000000, seller = seller - 1
 WHERE id IN (SELECT id FROM auction WHERE id < 1000000 ORDER BY md5('id :cycle ' || id) LIMIT 3);
UPDATE person SET id = id + 1000000
 WHERE id IN (SELECT id FROM person WHERE id < 1000000 ORDER BY md5('id :cycle ' || id) LIMIT 2);
UPDATE person SET id = id - 1000000 WHERE id > 1000000 AND id % 2 = :cycle % 2;

COMMIT;

-- Groups, predicates and windows: the same rows, seen by other queries or counted elsewhere.
BEGIN;

UPDATE person SET state = CASE WHEN state IN ('OR', 'ID', 'CA') THEN 'WA' ELSE 'OR' END
 WHERE id IN (SELECT id FROM person ORDER BY md5('state :cycle ' || id) LIMIT 8);
UPDATE person SET date_time = date_time + interval '10 seconds'
 WHERE id IN (SELECT id FROM person ORDER BY md5('time :cycle ' || id) LIMIT 6);
UPDATE auction SET category = 10 + (category - 9) % 5
 WHERE id IN (SELECT id FROM auction ORDER BY md5('category :cycle ' || id) LIMIT 10);
UPDATE auction SET expires = expires + interval '5 seconds' * (1 - :cycle % 2 * 2)
 WHERE id IN (SELECT id FROM auction ORDER BY md5('expires :cycle ' || id) LIMIT 15);
UPDATE auction SET date_time = date_time - interval '10 seconds'
 WHERE id IN (SELECT id FROM auction ORDER BY md5('time :cycle ' || id) LIMIT 5);
UPDATE bid SET price = 200000 - price
 WHERE ctid IN (SELECT ctid FROM bid ORDER BY md5('price :cycle ' || bid::text), ctid LIMIT 15);
UPDATE bid SET date_time = date_time + interval '7 seconds', bidder = bidder + 1
 WHERE ctid IN (SELECT ctid FROM bid ORDER BY md5('time :cycle ' || bid::text), ctid LIMIT 20);

COMMIT;

-- Changes that cancel out inside the window, in transactions of their own.
INSERT INTO person VALUES (9000000, 'Passing', '', '', '', 'OR', '2024-01-01', NULL);
UPDATE auction SET seller = seller + 5 WHERE id < 1010;
DELETE FROM person WHERE id = 9000000;
UPDATE auction SET seller = seller - 5 WHERE id < 1010;
