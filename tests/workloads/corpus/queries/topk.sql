-- The best of each group, and the best of all.

-- items_of_category: the three items with the highest revenue in each category
SELECT category_id, item_id, revenue, place
  FROM (SELECT i.category_id, i.item_id, sum(s.quantity * s.unit_price) AS revenue,
               row_number() OVER (PARTITION BY i.category_id
                                  ORDER BY sum(s.quantity * s.unit_price) DESC NULLS LAST,
                                           i.item_id) AS place
          FROM store_sales AS s JOIN items AS i ON i.item_id = s.item_id
         GROUP BY i.category_id, i.item_id) AS ranked
 WHERE place <= 3;

-- ten_customers: the ten customers who spent most on the web
SELECT c.customer_id, c.first_name, sum(s.quantity * s.unit_price) AS spent
  FROM customers AS c JOIN web_sales AS s ON s.customer_id = c.customer_id
 GROUP BY c.customer_id, c.first_name
 ORDER BY spent DESC NULLS LAST, c.customer_id
 LIMIT 10;

-- latest_purchase: each customer's latest purchase in a store, by DISTINCT ON
SELECT DISTINCT ON (s.customer_id) s.customer_id, s.sold_on, s.sale_id, i.title
  FROM store_sales AS s JOIN items AS i ON i.item_id = s.item_id
 WHERE s.customer_id IS NOT NULL
 ORDER BY s.customer_id, s.sold_on DESC, s.sale_id DESC;

-- two_dearest_by_lateral: the two dearest items of each brand, by a lateral subquery
SELECT b.name, top.item_id, top.title, top.list_price
  FROM brands AS b
 CROSS JOIN LATERAL (SELECT i.item_id, i.title, i.list_price FROM items AS i
                      WHERE i.brand_id = b.brand_id
                      ORDER BY i.list_price DESC, i.item_id LIMIT 2) AS top;

-- best_store_of_month: the store with the highest revenue of each month, ties included
WITH monthly AS (
    SELECT date_trunc('month', s.sold_on) AS month, t.name, sum(s.unit_price * s.quantity) AS revenue
      FROM store_sales AS s JOIN stores AS t ON t.store_id = s.store_id
     GROUP BY 1, 2)
SELECT month, name, revenue
  FROM (SELECT monthly.*, rank() OVER (PARTITION BY month ORDER BY revenue DESC NULLS LAST) AS place
          FROM monthly) AS ranked
 WHERE place = 1;

-- dense_reasons: the two most frequent reasons of return in each channel, with ties
SELECT channel, reason, times
  FROM (SELECT channel, reason, count(*) AS times,
               dense_rank() OVER (PARTITION BY channel ORDER BY count(*) DESC) AS place
          FROM returns GROUP BY channel, reason) AS ranked
 WHERE place <= 2;

-- second_page: the second page of the employees by salary
SELECT e.employee_id, e.name, e.salary, t.name AS store
  FROM employees AS e LEFT JOIN stores AS t ON t.store_id = e.store_id
 ORDER BY e.salary DESC, e.employee_id
OFFSET 10 FETCH NEXT 10 ROWS ONLY;

-- with_ties: the items with the five largest quantities on one line, ties included
SELECT i.title, s.quantity, s.sale_id
  FROM catalog_sales AS s JOIN items AS i ON i.item_id = s.item_id
 WHERE s.quantity IS NOT NULL AND i.colour = 'red'
 ORDER BY s.quantity DESC
 FETCH FIRST 5 ROWS WITH TIES;

-- best_and_worst: the best and the worst item of each store beside one another
WITH ranked AS (
    SELECT store_id, item_id, sum(quantity) AS pieces,
           row_number() OVER (PARTITION BY store_id ORDER BY sum(quantity) DESC NULLS LAST, item_id) AS best,
           row_number() OVER (PARTITION BY store_id ORDER BY sum(quantity) NULLS LAST, item_id) AS worst
      FROM store_sales GROUP BY store_id, item_id)
SELECT b.store_id, b.item_id AS best_item, b.pieces AS most, w.item_id AS worst_item, w.pieces AS least
  FROM ranked AS b JOIN ranked AS w ON w.store_id = b.store_id
 WHERE b.best = 1 AND w.worst = 1;

-- max_of_group: lines at the highest price their item ever had, by a join with the maximum
SELECT s.sale_id, s.item_id, s.unit_price
  FROM web_sales AS s
  JOIN (SELECT item_id, max(unit_price) AS highest FROM web_sales GROUP BY item_id) AS top
    ON top.item_id = s.item_id AND top.highest = s.unit_price;
