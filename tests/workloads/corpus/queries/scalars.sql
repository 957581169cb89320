-- CASE with scalar subqueries, and other single values.

-- buckets: one of two averages for each class of quantity, chosen by a count
SELECT CASE WHEN (SELECT count(*) FROM store_sales WHERE quantity BETWEEN 1 AND 3) > 700
            THEN (SELECT avg(unit_price) FROM store_sales WHERE quantity BETWEEN 1 AND 3)
            ELSE (SELECT avg(discount) FROM store_sales WHERE quantity BETWEEN 1 AND 3) END AS small,
       CASE WHEN (SELECT count(*) FROM store_sales WHERE quantity BETWEEN 4 AND 6) > 800
            THEN (SELECT avg(unit_price) FROM store_sales WHERE quantity BETWEEN 4 AND 6)
            ELSE (SELECT avg(discount) FROM store_sales WHERE quantity BETWEEN 4 AND 6) END AS middle,
       CASE WHEN (SELECT count(*) FROM store_sales WHERE quantity BETWEEN 7 AND 9) > 800
            THEN (SELECT avg(unit_price) FROM store_sales WHERE quantity BETWEEN 7 AND 9)
            ELSE (SELECT avg(discount) FROM store_sales WHERE quantity BETWEEN 7 AND 9) END AS large;

-- five_buckets: the same with five classes, fifteen subqueries in all
SELECT CASE WHEN (SELECT count(*) FROM web_sales WHERE quantity = 1) > 150
            THEN (SELECT avg(unit_price) FROM web_sales WHERE quantity = 1)
            ELSE (SELECT avg(shipping) FROM web_sales WHERE quantity = 1) END AS one,
       CASE WHEN (SELECT count(*) FROM web_sales WHERE quantity = 2) > 190
            THEN (SELECT avg(unit_price) FROM web_sales WHERE quantity = 2)
            ELSE (SELECT avg(shipping) FROM web_sales WHERE quantity = 2) END AS two,
       CASE WHEN (SELECT count(*) FROM web_sales WHERE quantity = 3) > 150
            THEN (SELECT avg(unit_price) FROM web_sales WHERE quantity = 3)
            ELSE (SELECT avg(shipping) FROM web_sales WHERE quantity = 3) END AS three,
       CASE WHEN (SELECT count(*) FROM web_sales WHERE quantity = 4) > 190
            THEN (SELECT avg(unit_price) FROM web_sales WHERE quantity = 4)
            ELSE (SELECT avg(shipping) FROM web_sales WHERE quantity = 4) END AS four,
       CASE WHEN (SELECT count(*) FROM web_sales WHERE quantity > 4) > 800
            THEN (SELECT avg(unit_price) FROM web_sales WHERE quantity > 4)
            ELSE (SELECT avg(shipping) FROM web_sales WHERE quantity > 4) END AS more
  FROM stores WHERE store_id = 1;

-- one_row_report: several totals of different tables in one row
SELECT (SELECT sum(quantity * unit_price) FROM store_sales) AS store,
       (SELECT sum(quantity * unit_price) FROM catalog_sales) AS catalogue,
       (SELECT sum(quantity * unit_price) FROM web_sales) AS web,
       (SELECT sum(amount) FROM returns) AS returned,
       (SELECT count(DISTINCT visitor) FROM events) AS visitors;

-- relative_to_all: each store's revenue relative to all and to the best
SELECT t.name, sum(s.unit_price) AS revenue,
       CASE WHEN sum(s.unit_price) > (SELECT sum(unit_price) / 12 FROM store_sales)
            THEN 'above' ELSE 'below' END AS side,
       sum(s.unit_price) - (SELECT sum(unit_price) / 12 FROM store_sales) AS distance
  FROM store_sales AS s JOIN stores AS t ON t.store_id = s.store_id GROUP BY t.name;

-- morning_to_evening: ratio of sales before noon to sales in the evening
SELECT am.n AS morning, pm.n AS evening, am.n::numeric / nullif(pm.n, 0) AS ratio
  FROM (SELECT count(*) AS n FROM web_sales WHERE sold_at::time < '12:00') AS am
 CROSS JOIN (SELECT count(*) AS n FROM web_sales WHERE sold_at::time >= '18:00') AS pm;

-- classes_of_customers: customers by class, with thresholds that are averages themselves
SELECT CASE WHEN spent > 2 * (SELECT avg(unit_price * quantity) FROM store_sales) THEN 'good'
            WHEN spent IS NULL THEN 'unknown' ELSE 'usual' END AS class,
       count(*) AS customers, avg(spent) AS average
  FROM (SELECT customer_id, max(unit_price * quantity) AS spent FROM store_sales
         GROUP BY customer_id) AS maxima
 GROUP BY 1;

-- pivot: revenue by weekday in columns, a row for each store
SELECT s.store_id,
       sum(CASE WHEN d.weekday = 1 THEN s.unit_price END) AS monday,
       sum(CASE WHEN d.weekday = 3 THEN s.unit_price ELSE 0 END) AS wednesday,
       sum(CASE WHEN d.weekday IN (6, 7) THEN s.unit_price END) AS weekend,
       sum(CASE WHEN d.weekday IN (6, 7) THEN s.unit_price END) / sum(s.unit_price) AS share
  FROM store_sales AS s JOIN days AS d ON d.day = s.sold_on GROUP BY s.store_id;

-- first_not_null: the first amount there is, from three places
SELECT i.item_id, coalesce((SELECT max(w.unit_price) FROM web_sales AS w
                             WHERE w.item_id = i.item_id AND w.site = 'outlet' AND w.quantity = 9),
                           (SELECT max(c.unit_price) FROM catalog_sales AS c
                             WHERE c.item_id = i.item_id AND c.quantity = 9),
                           i.list_price) AS price
  FROM items AS i;

-- late_shipments: shipped orders of the catalogue by delay, as columns
SELECT s.call_center, c.segment,
       count(*) FILTER (WHERE s.shipped_on - s.sold_on <= 10) AS soon,
       count(*) FILTER (WHERE s.shipped_on - s.sold_on BETWEEN 11 AND 30) AS later,
       count(*) FILTER (WHERE s.shipped_on - s.sold_on > 30) AS late,
       count(*) FILTER (WHERE s.shipped_on IS NULL) AS open
  FROM catalog_sales AS s LEFT JOIN customers AS c ON c.customer_id = s.customer_id
 GROUP BY s.call_center, c.segment;
