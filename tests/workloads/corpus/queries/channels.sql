-- The three channels beside one another: INTERSECT, EXCEPT, UNION and FULL JOIN.

-- bought_everywhere: customers who bought in all three channels in 2024
SELECT customer_id FROM store_sales WHERE sold_on >= '2024-01-01'
INTERSECT
SELECT customer_id FROM catalog_sales WHERE sold_on >= '2024-01-01'
INTERSECT
SELECT customer_id FROM web_sales WHERE sold_at >= '2024-01-01';

-- only_in_stores: customers who bought in stores and nowhere else
SELECT c.customer_id, c.last_name
  FROM customers AS c JOIN store_sales AS s ON s.customer_id = c.customer_id
EXCEPT
SELECT c.customer_id, c.last_name
  FROM customers AS c JOIN web_sales AS s ON s.customer_id = c.customer_id
EXCEPT
SELECT c.customer_id, c.last_name
  FROM customers AS c JOIN catalog_sales AS s ON s.customer_id = c.customer_id;

-- prices_left_over: prices of the web beyond those of stores, counted
SELECT unit_price FROM web_sales WHERE item_id <= 10
EXCEPT ALL
SELECT unit_price FROM store_sales WHERE item_id <= 10;

-- common_pairs: colours that a segment buys both in stores and on the web, with multiplicity
SELECT c.segment, i.colour
  FROM store_sales AS s
  JOIN customers AS c ON c.customer_id = s.customer_id
  JOIN items AS i ON i.item_id = s.item_id
INTERSECT ALL
SELECT c.segment, i.colour
  FROM web_sales AS s
  JOIN customers AS c ON c.customer_id = s.customer_id
  JOIN items AS i ON i.item_id = s.item_id;

-- count_of_common: how many customers of 2023 are common to stores and catalogue
SELECT count(*) AS customers
  FROM (SELECT c.customer_id, c.email
          FROM customers AS c JOIN store_sales AS s ON s.customer_id = c.customer_id
         WHERE s.sold_on < '2024-01-01'
        INTERSECT
        SELECT c.customer_id, c.email
          FROM customers AS c JOIN catalog_sales AS s ON s.customer_id = c.customer_id
         WHERE s.sold_on < '2024-01-01') AS common;

-- full_by_item: what an item brought on the web and by catalogue, either may be missing
SELECT coalesce(w.item_id, c.item_id) AS item_id, w.revenue AS web, c.revenue AS catalogue,
       coalesce(w.revenue, 0) - coalesce(c.revenue, 0) AS lead
  FROM (SELECT item_id, sum(quantity * unit_price) AS revenue FROM web_sales
         WHERE site = 'app' GROUP BY item_id) AS w
  FULL JOIN (SELECT item_id, sum(quantity * unit_price) AS revenue FROM catalog_sales
              WHERE call_center = 'night' GROUP BY item_id) AS c
    ON c.item_id = w.item_id;

-- full_by_day: three channels a day, by two FULL JOINs with USING
SELECT day, s.revenue AS store, c.revenue AS catalogue, w.revenue AS web
  FROM (SELECT sold_on AS day, sum(unit_price) AS revenue FROM store_sales GROUP BY sold_on) AS s
  FULL JOIN (SELECT sold_on AS day, sum(unit_price) AS revenue
               FROM catalog_sales GROUP BY sold_on) AS c USING (day)
  FULL JOIN (SELECT sold_at::date AS day, sum(unit_price) AS revenue
               FROM web_sales GROUP BY sold_at::date) AS w USING (day)
 WHERE day >= '2024-06-01';

-- full_month_running: two channels by month, FULL JOINed, with running totals of both
SELECT coalesce(s.month, w.month) AS month, s.revenue AS store, w.revenue AS web,
       sum(s.revenue) OVER (ORDER BY coalesce(s.month, w.month)) AS store_so_far,
       sum(w.revenue) OVER (ORDER BY coalesce(s.month, w.month)) AS web_so_far
  FROM (SELECT date_trunc('month', sold_on)::date AS month, sum(unit_price) AS revenue
          FROM store_sales GROUP BY 1) AS s
  FULL JOIN (SELECT date_trunc('month', sold_at)::date AS month, sum(unit_price) AS revenue
               FROM web_sales GROUP BY 1) AS w ON w.month = s.month;

-- channel_flags: each customer with the channels used, by FULL JOINs of distinct keys
SELECT coalesce(s.customer_id, c.customer_id) AS customer_id,
       s.customer_id IS NOT NULL AS in_stores, c.customer_id IS NOT NULL AS by_catalogue
  FROM (SELECT DISTINCT customer_id FROM store_sales WHERE promotion_id IS NOT NULL) AS s
  FULL JOIN (SELECT DISTINCT customer_id FROM catalog_sales WHERE promotion_id IS NOT NULL) AS c
    ON c.customer_id = s.customer_id;

-- profit_and_loss: sales less returns by channel, one under the other
SELECT channel, sum(sales) AS sales, sum(returned) AS returned, sum(sales) - sum(returned) AS net
  FROM (SELECT 'store' AS channel, quantity * unit_price AS sales, 0::numeric(8, 2) AS returned
          FROM store_sales
        UNION ALL SELECT 'catalog', quantity * unit_price, 0 FROM catalog_sales
        UNION ALL SELECT 'web', quantity * unit_price, 0 FROM web_sales
        UNION ALL SELECT channel, 0, amount FROM returns) AS moved
 GROUP BY channel;

-- all_parties: one list of customers by channel, without repetition
SELECT 'store' AS channel, customer_id, sold_on AS day FROM store_sales WHERE quantity > 8
UNION
SELECT 'catalog', customer_id, sold_on FROM catalog_sales WHERE quantity > 8
UNION
SELECT 'web', customer_id, sold_at::date FROM web_sales WHERE quantity > 8;

-- more_on_the_web: customers whose web revenue grew faster than their store revenue
WITH yearly AS (
    SELECT customer_id, 's' AS channel, extract(year FROM sold_on) AS year,
           sum(unit_price * quantity) AS total
      FROM store_sales GROUP BY 1, 3
    UNION ALL
    SELECT customer_id, 'w', extract(year FROM sold_at), sum(unit_price * quantity)
      FROM web_sales GROUP BY 1, 3)
SELECT s1.customer_id, s1.total AS store_2023, s2.total AS store_2024, w1.total AS web_2023,
       w2.total AS web_2024
  FROM yearly AS s1
  JOIN yearly AS s2 ON s2.customer_id = s1.customer_id
  JOIN yearly AS w1 ON w1.customer_id = s1.customer_id
  JOIN yearly AS w2 ON w2.customer_id = s1.customer_id
 WHERE s1.channel = 's' AND s1.year = 2023 AND s2.channel = 's' AND s2.year = 2024
   AND w1.channel = 'w' AND w1.year = 2023 AND w2.channel = 'w' AND w2.year = 2024
   AND s1.total > 0 AND w1.total > 0
   AND w2.total / w1.total > s2.total / s1.total;
