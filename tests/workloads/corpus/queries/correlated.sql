-- Correlated subqueries: averages of the own group, EXISTS, and comparisons with all.

-- above_store_average: customers who spent a fifth more in a store than its customers on average
WITH totals AS (
    SELECT customer_id, store_id, sum(quantity * unit_price) AS total
      FROM store_sales GROUP BY customer_id, store_id)
SELECT a.customer_id, a.store_id, a.total
  FROM totals AS a
 WHERE a.total > (SELECT avg(b.total) * 1.2 FROM totals AS b WHERE b.store_id = a.store_id);

-- frequent_returners: customers who returned more than the average of their channel
WITH returned AS (
    SELECT customer_id, channel, sum(amount) AS amount FROM returns GROUP BY customer_id, channel)
SELECT c.customer_id, c.last_name, r.channel, r.amount
  FROM returned AS r JOIN customers AS c ON c.customer_id = r.customer_id
 WHERE r.amount > (SELECT avg(o.amount) * 1.5 FROM returned AS o WHERE o.channel = r.channel);

-- cheap_lines: lines that cost less than a third of the item's average
SELECT s.sale_id, s.item_id, s.unit_price
  FROM web_sales AS s
 WHERE s.unit_price < (SELECT 0.3 * avg(o.unit_price) FROM web_sales AS o WHERE o.item_id = s.item_id);

-- above_category: items that are dearer than their category's average, with the difference
SELECT i.item_id, i.title, i.list_price,
       i.list_price - (SELECT avg(o.list_price) FROM items AS o WHERE o.category_id = i.category_id) AS above
  FROM items AS i
 WHERE i.list_price > (SELECT avg(o.list_price) FROM items AS o WHERE o.category_id = i.category_id);

-- never_returned: items that were sold in every channel and never came back
SELECT i.item_id, i.title FROM items AS i
 WHERE EXISTS (SELECT 1 FROM store_sales AS s WHERE s.item_id = i.item_id)
   AND EXISTS (SELECT 1 FROM catalog_sales AS s WHERE s.item_id = i.item_id)
   AND EXISTS (SELECT 1 FROM web_sales AS s WHERE s.item_id = i.item_id)
   AND NOT EXISTS (SELECT 1 FROM returns AS r WHERE r.item_id = i.item_id);

-- counts_beside: each customer with three counts from other tables
SELECT c.customer_id, c.last_name,
       (SELECT count(*) FROM store_sales AS s WHERE s.customer_id = c.customer_id) AS in_stores,
       (SELECT count(*) FROM web_sales AS s WHERE s.customer_id = c.customer_id) AS on_the_web,
       (SELECT sum(r.amount) FROM returns AS r WHERE r.customer_id = c.customer_id) AS returned
  FROM customers AS c WHERE c.segment = 'business';

-- dearer_than_all: items that are dearer than all items of another brand
SELECT i.item_id, i.title, i.list_price FROM items AS i
 WHERE i.list_price > ALL (SELECT o.list_price FROM items AS o WHERE o.brand_id = 3);

-- not_in_list: customers who are not in the list of those with returns
SELECT customer_id, first_name FROM customers
 WHERE customer_id NOT IN (SELECT customer_id FROM returns WHERE customer_id IS NOT NULL);

-- split_orders: orders of the web that came from more than one address
SELECT w.order_no, count(*) AS lines, sum(w.shipping) AS shipping
  FROM web_sales AS w
 WHERE EXISTS (SELECT 1 FROM web_sales AS o
                WHERE o.order_no = w.order_no AND o.address_id <> w.address_id)
   AND NOT EXISTS (SELECT 1 FROM returns AS r WHERE r.channel = 'web' AND r.sale_id = w.sale_id)
 GROUP BY w.order_no;

-- latest_count: the latest count of each shelf, by a maximum of the same shelf
SELECT s.item_id, s.store_id, s.counted_on, s.on_hand
  FROM stock AS s
 WHERE s.counted_on = (SELECT max(o.counted_on) FROM stock AS o
                        WHERE o.item_id = s.item_id AND o.store_id = s.store_id);

-- best_of_segment: customers with the highest credit of their segment
SELECT c.customer_id, c.segment, c.credit FROM customers AS c
 WHERE c.credit >= ALL (SELECT o.credit FROM customers AS o
                         WHERE o.segment = c.segment AND o.credit IS NOT NULL)
   AND c.credit IS NOT NULL;

-- deviation: how far each line is from the average of item and year, in standard deviations
WITH spread AS (
    SELECT item_id, extract(year FROM sold_on) AS year, avg(unit_price) AS mean,
           stddev_samp(unit_price) AS deviation
      FROM catalog_sales GROUP BY 1, 2)
SELECT s.sale_id, s.unit_price, (s.unit_price - p.mean) / nullif(p.deviation, 0) AS score
  FROM catalog_sales AS s
  JOIN spread AS p ON p.item_id = s.item_id AND p.year = extract(year FROM s.sold_on)
 WHERE p.deviation > 100;

-- any_of_promotion: sales on a day on which some promotion of their channel was on
SELECT s.sale_id, s.sold_on FROM store_sales AS s
 WHERE s.promotion_id IS NULL AND s.quantity >= 7
   AND EXISTS (SELECT 1 FROM promotions AS p
                WHERE p.channel = 'store' AND s.sold_on BETWEEN p.starts AND p.ends);

-- lateral_average: each employee with the average salary of colleagues in the same store
SELECT e.employee_id, e.name, e.salary, peers.average, peers.people
  FROM employees AS e
 CROSS JOIN LATERAL (SELECT avg(o.salary) AS average, count(*) AS people FROM employees AS o
                      WHERE o.store_id = e.store_id AND o.employee_id <> e.employee_id) AS peers;
