-- Wide queries: many tables, CTEs over them, several levels of aggregation.

-- everything_of_a_sale: nine tables around one fact
SELECT a.country, sa.country AS store_country, b.maker, g.name AS category, p.name AS parent,
       d.year, c.segment, e.title, count(*) AS sales, sum(s.quantity * s.unit_price) AS revenue
  FROM store_sales AS s
  JOIN days AS d ON d.day = s.sold_on
  JOIN customers AS c ON c.customer_id = s.customer_id
  JOIN addresses AS a ON a.address_id = c.address_id
  JOIN stores AS t ON t.store_id = s.store_id
  JOIN addresses AS sa ON sa.address_id = t.address_id
  JOIN employees AS e ON e.employee_id = s.employee_id
  JOIN items AS i ON i.item_id = s.item_id
  JOIN brands AS b ON b.brand_id = i.brand_id
  JOIN categories AS g ON g.category_id = i.category_id
  LEFT JOIN categories AS p ON p.category_id = g.parent_id
 GROUP BY a.country, sa.country, b.maker, g.name, p.name, d.year, c.segment, e.title;

-- sold_back_sold: items bought in a store, returned, and bought again by catalogue
SELECT i.item_id, i.title, t.name AS store, count(*) AS times, sum(s.quantity) AS sold,
       sum(r.quantity) AS returned, sum(k.quantity) AS again
  FROM store_sales AS s
  JOIN returns AS r ON r.channel = 'store' AND r.sale_id = s.sale_id
  JOIN catalog_sales AS k ON k.customer_id = s.customer_id AND k.sold_on > s.sold_on
  JOIN items AS i ON i.item_id = s.item_id
  JOIN stores AS t ON t.store_id = s.store_id
  JOIN days AS d1 ON d1.day = s.sold_on
  JOIN days AS d2 ON d2.day = k.sold_on
 WHERE d1.year = 2023
 GROUP BY i.item_id, i.title, t.name;

-- two_years_of_pairs: a join of nine tables in a CTE, used for both years
WITH crossed AS (
    SELECT i.item_id, t.name AS store, ca.city AS home, sa.city AS place, d.year, count(*) AS sales,
           sum(s.unit_price) AS revenue
      FROM store_sales AS s
      JOIN items AS i ON i.item_id = s.item_id
      JOIN brands AS b ON b.brand_id = i.brand_id
      JOIN stores AS t ON t.store_id = s.store_id
      JOIN addresses AS sa ON sa.address_id = t.address_id
      JOIN customers AS c ON c.customer_id = s.customer_id
      JOIN addresses AS ca ON ca.address_id = c.address_id
      JOIN days AS d ON d.day = s.sold_on
      JOIN days AS joined ON joined.day = c.signed_up
     WHERE b.maker IS NOT NULL
     GROUP BY i.item_id, t.name, ca.city, sa.city, d.year)
SELECT x.item_id, x.store, x.home, x.sales, y.sales AS next_sales, x.revenue, y.revenue AS next_revenue
  FROM crossed AS x
  JOIN crossed AS y ON y.item_id = x.item_id AND y.store = x.store AND y.home = x.home
                   AND y.place = x.place AND y.year = 2024
 WHERE x.year = 2023 AND y.sales <= x.sales;

-- channel_matrix: customers by what they spent in each channel, classified and counted
WITH s AS (SELECT customer_id, sum(quantity * unit_price) AS v FROM store_sales GROUP BY customer_id),
c AS (SELECT customer_id, sum(quantity * unit_price) AS v FROM catalog_sales GROUP BY customer_id),
w AS (SELECT customer_id, sum(quantity * unit_price) AS v FROM web_sales GROUP BY customer_id)
SELECT k.segment, coalesce(s.v, 0) > 3000 AS much_in_stores, coalesce(c.v, 0) > 1500 AS much_by_catalogue,
       coalesce(w.v, 0) > 2000 AS much_on_the_web, count(*) AS customers
  FROM customers AS k
  LEFT JOIN s ON s.customer_id = k.customer_id
  LEFT JOIN c ON c.customer_id = k.customer_id
  LEFT JOIN w ON w.customer_id = k.customer_id
 GROUP BY 1, 2, 3, 4;

-- common_items: brands and categories that all channels sell, and what those items bring above average
WITH common AS (
    SELECT i.brand_id, i.category_id FROM store_sales AS s JOIN items AS i ON i.item_id = s.item_id
    INTERSECT
    SELECT i.brand_id, i.category_id FROM catalog_sales AS s JOIN items AS i ON i.item_id = s.item_id
    INTERSECT
    SELECT i.brand_id, i.category_id FROM web_sales AS s JOIN items AS i ON i.item_id = s.item_id),
level AS (
    SELECT avg(quantity * unit_price) AS average
      FROM (SELECT quantity, unit_price FROM store_sales
            UNION ALL SELECT quantity, unit_price FROM catalog_sales
            UNION ALL SELECT quantity, unit_price FROM web_sales) AS sold)
SELECT i.brand_id, i.category_id, sum(s.quantity * s.unit_price) AS revenue, count(*) AS sales
  FROM web_sales AS s
  JOIN items AS i ON i.item_id = s.item_id
  JOIN common AS k ON k.brand_id = i.brand_id AND k.category_id = i.category_id
 GROUP BY i.brand_id, i.category_id
HAVING sum(s.quantity * s.unit_price) > (SELECT average FROM level);

-- stock_cover: weeks that the latest stock lasts at the rate of sales
WITH latest AS (
    SELECT DISTINCT ON (item_id, store_id) item_id, store_id, on_hand
      FROM stock ORDER BY item_id, store_id, counted_on DESC),
rate AS (
    SELECT item_id, store_id, sum(quantity) / 104.0 AS weekly FROM store_sales GROUP BY item_id, store_id)
SELECT l.item_id, t.name, l.on_hand, r.weekly, l.on_hand / nullif(r.weekly, 0) AS weeks
  FROM latest AS l
  JOIN stores AS t ON t.store_id = l.store_id
  LEFT JOIN rate AS r ON r.item_id = l.item_id AND r.store_id = l.store_id;

-- store_scorecard: sales, returns, staff and stock of each store side by side
SELECT t.store_id, t.name, a.city, sold.revenue, sold.revenue / t.floor_area AS by_area,
       staff.people, sold.revenue / nullif(staff.salaries, 0) AS by_salary, back.amount AS returned,
       shelf.pieces
  FROM stores AS t
  LEFT JOIN addresses AS a ON a.address_id = t.address_id
  LEFT JOIN (SELECT store_id, sum(quantity * unit_price) AS revenue FROM store_sales GROUP BY store_id) AS sold
    ON sold.store_id = t.store_id
  LEFT JOIN (SELECT store_id, count(*) AS people, sum(salary) AS salaries FROM employees GROUP BY store_id) AS staff
    ON staff.store_id = t.store_id
  LEFT JOIN (SELECT s.store_id, sum(r.amount) AS amount
               FROM returns AS r JOIN store_sales AS s ON s.sale_id = r.sale_id AND r.channel = 'store'
              GROUP BY s.store_id) AS back
    ON back.store_id = t.store_id
  LEFT JOIN (SELECT store_id, sum(on_hand) AS pieces FROM stock GROUP BY store_id) AS shelf
    ON shelf.store_id = t.store_id;

-- web_after_visit: purchases by the campaign of the customer's latest visit before them
SELECT s.sale_id, coalesce(last_visit.source, 'direct') AS source, s.quantity * s.unit_price AS amount
  FROM web_sales AS s
  LEFT JOIN LATERAL (SELECT e.payload #>> '{utm,source}' AS source FROM events AS e
                      WHERE e.customer_id = s.customer_id AND e.at <= s.sold_at
                      ORDER BY e.at DESC, e.event_id DESC LIMIT 1) AS last_visit ON true
 WHERE s.sold_at BETWEEN '2024-03-01' AND '2024-04-30';
