-- The changes of one cycle beside its new rows; ":cycle" stands for its number, from 1. Which rows
-- change is drawn by a hash of key and cycle, so every run makes the same changes.

-- Facts leave, and dimensions with or without the facts that name them.
BEGIN;

DELETE FROM store_sales WHERE sale_id IN (
       SELECT sale_id FROM store_sales ORDER BY md5('leave :cycle ' || sale_id) LIMIT 14);
DELETE FROM catalog_sales WHERE sale_id IN (
       SELECT sale_id FROM catalog_sales ORDER BY md5('leave :cycle ' || sale_id) LIMIT 9);
DELETE FROM web_sales WHERE sale_id IN (
       SELECT sale_id FROM web_sales ORDER BY md5('leave :cycle ' || sale_id) LIMIT 11);
DELETE FROM returns WHERE return_id IN (
       SELECT return_id FROM returns ORDER BY md5('leave :cycle ' || return_id) LIMIT 6);
DELETE FROM events WHERE event_id IN (
       SELECT event_id FROM events ORDER BY md5('leave :cycle ' || event_id) LIMIT 20);
DELETE FROM stock WHERE (item_id, store_id, counted_on) IN (
       SELECT item_id, store_id, counted_on FROM stock
        ORDER BY md5('leave :cycle ' || item_id || ' ' || store_id || ' ' || counted_on) LIMIT 5);
DELETE FROM customers WHERE customer_id IN (
       SELECT customer_id FROM customers ORDER BY md5('leave :cycle ' || customer_id) LIMIT 2);
DELETE FROM store_sales WHERE customer_id IN (  -- a customer stays and never bought
       SELECT customer_id FROM customers ORDER BY md5('sales :cycle ' || customer_id) LIMIT 2);
DELETE FROM items WHERE item_id IN (
       SELECT item_id FROM items ORDER BY md5('leave :cycle ' || item_id) LIMIT 1);
DELETE FROM employees WHERE employee_id IN (  -- and leaves reports without a boss
       SELECT employee_id FROM employees WHERE employee_id > 1
        ORDER BY md5('leave :cycle ' || employee_id) LIMIT 1);
DELETE FROM promotions WHERE promotion_id IN (
       SELECT promotion_id FROM promotions ORDER BY md5('leave :cycle ' || promotion_id) LIMIT 1);

COMMIT;

-- Join keys move.
BEGIN;

UPDATE store_sales SET item_id = 1 + (item_id + 6) % 120, store_id = 1 + store_id % 12
 WHERE sale_id IN (
       SELECT sale_id FROM store_sales ORDER BY md5('item :cycle ' || sale_id) LIMIT 8);
UPDATE catalog_sales SET customer_id = 1 + (coalesce(customer_id, 0) + 3) % 300
 WHERE sale_id IN (
       SELECT sale_id FROM catalog_sales ORDER BY md5('customer :cycle ' || sale_id) LIMIT 6);
UPDATE web_sales SET item_id = 1 + (item_id + 2) % 20, customer_id = NULLIF(customer_id % 40, 0)
 WHERE sale_id IN (
       SELECT sale_id FROM web_sales ORDER BY md5('item :cycle ' || sale_id) LIMIT 8);
UPDATE returns SET sale_id = sale_id + 1, channel = CASE channel WHEN 'web' THEN 'store' ELSE 'web' END
 WHERE return_id IN (
       SELECT return_id FROM returns ORDER BY md5('sale :cycle ' || return_id) LIMIT 5);
UPDATE items SET category_id = 4 + (coalesce(category_id, 4) - 3) % 11,
                 brand_id = 1 + coalesce(brand_id, 0) % 7
 WHERE item_id IN (SELECT item_id FROM items ORDER BY md5('kind :cycle ' || item_id) LIMIT 3);
UPDATE customers SET address_id = 1 + (coalesce(address_id, 0) + 11) % 160
 WHERE customer_id IN (
       SELECT customer_id FROM customers ORDER BY md5('move :cycle ' || customer_id) LIMIT 5);
UPDATE employees SET boss_id = 2 + (employee_id + :cycle) % 12
 WHERE employee_id IN (
       SELECT employee_id FROM employees WHERE employee_id > 13
        ORDER BY md5('boss :cycle ' || employee_id) LIMIT 3);
UPDATE categories SET parent_id = 4 + :cycle % 4 WHERE category_id = 9 + :cycle % 4;
UPDATE stores SET manager_id = 1 + (manager_id + :cycle) % 14 WHERE store_id = 1 + :cycle % 12;
UPDATE customers SET customer_id = customer_id + 100000
 WHERE customer_id IN (
       SELECT customer_id FROM customers WHERE customer_id < 100000
        ORDER BY md5('id :cycle ' || customer_id) LIMIT 1);

COMMIT;

-- Amounts, groups and predicates.
BEGIN;

UPDATE store_sales SET quantity = 1 + coalesce(quantity, 0) % 9, unit_price = unit_price + 1.05,
                       discount = CASE WHEN sale_id % 2 = 0 THEN NULL ELSE 2.50 END
 WHERE sale_id IN (
       SELECT sale_id FROM store_sales ORDER BY md5('amount :cycle ' || sale_id) LIMIT 14);
UPDATE store_sales SET sold_on = sold_on + 31
 WHERE sale_id IN (
       SELECT sale_id FROM store_sales WHERE sold_on < '2024-11-20'
        ORDER BY md5('day :cycle ' || sale_id) LIMIT 6);
UPDATE catalog_sales SET unit_price = unit_price * 1.10, shipped_on = sold_on + 3
 WHERE sale_id IN (
       SELECT sale_id FROM catalog_sales ORDER BY md5('amount :cycle ' || sale_id) LIMIT 8);
UPDATE web_sales SET quantity = 10 - coalesce(quantity, 5), sold_at = sold_at - interval '26 hours'
 WHERE sale_id IN (
       SELECT sale_id FROM web_sales WHERE sold_at > '2023-01-04'
        ORDER BY md5('amount :cycle ' || sale_id) LIMIT 8);
UPDATE web_sales SET site = CASE site WHEN 'app' THEN 'main' ELSE 'app' END, shipped_on = NULL
 WHERE sale_id IN (SELECT sale_id FROM web_sales ORDER BY md5('site :cycle ' || sale_id) LIMIT 5);
UPDATE returns SET amount = amount + 0.45, reason = 'late'
 WHERE return_id IN (
       SELECT return_id FROM returns ORDER BY md5('amount :cycle ' || return_id) LIMIT 6);
UPDATE items SET list_price = list_price + 0.99, weight = 1.500, colour = 'ochre',
                 attributes = jsonb_set(attributes, '{care,wash}', '95')
 WHERE item_id IN (SELECT item_id FROM items ORDER BY md5('price :cycle ' || item_id) LIMIT 3);
UPDATE customers SET segment = CASE segment WHEN 'club' THEN 'private' ELSE 'club' END,
                     credit = coalesce(credit, 0) + 10.5,
                     preferences = preferences || '{"newsletter": true}'
 WHERE customer_id IN (
       SELECT customer_id FROM customers ORDER BY md5('segment :cycle ' || customer_id) LIMIT 6);
UPDATE employees SET salary = salary * 1.03
 WHERE employee_id IN (
       SELECT employee_id FROM employees ORDER BY md5('raise :cycle ' || employee_id) LIMIT 4);
UPDATE stores SET floor_area = floor_area + 10,
                  closed = CASE WHEN closed IS NULL THEN date '2024-12-31' END
 WHERE store_id = 1 + (:cycle * 5) % 12;
UPDATE addresses SET city = 'Querin', state = 'E', country = 'Eastfold'
 WHERE address_id IN (
       SELECT address_id FROM addresses ORDER BY md5('place :cycle ' || address_id) LIMIT 2);
UPDATE promotions SET ends = ends + 20, rate = rate + 0.010
 WHERE promotion_id IN (
       SELECT promotion_id FROM promotions ORDER BY md5('longer :cycle ' || promotion_id) LIMIT 2);
UPDATE days SET holiday = 'Fair'
 WHERE day IN (SELECT day FROM days ORDER BY md5('holiday :cycle ' || day) LIMIT 2);
UPDATE stock SET on_hand = 61 - coalesce(on_hand, 20)
 WHERE (item_id, store_id, counted_on) IN (
       SELECT item_id, store_id, counted_on FROM stock
        ORDER BY md5('count :cycle ' || item_id || ' ' || store_id || ' ' || counted_on) LIMIT 12);
UPDATE events SET kind = CASE kind WHEN 'view' THEN 'cart' ELSE 'view' END,
                  at = at + interval '25 minutes',
                  payload = payload || '{"device": "phone", "item": 7}'
 WHERE event_id IN (
       SELECT event_id FROM events ORDER BY md5('kind :cycle ' || event_id) LIMIT 15);
UPDATE brands SET maker = 'Hill & Sons' WHERE brand_id = 1 + :cycle % 7;

COMMIT;

-- Changes that cancel out inside the window, in transactions of their own.
INSERT INTO brands VALUES (900, 'Passing', 'Nobody');
UPDATE store_sales SET quantity = quantity + 1 WHERE sale_id < 10;
DELETE FROM brands WHERE brand_id = 900;
UPDATE store_sales SET quantity = quantity - 1 WHERE sale_id < 10;
