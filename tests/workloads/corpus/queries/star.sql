-- Star and snowflake joins: a fact table with its dimensions, and those with theirs.

-- revenue_by_region: what stores took, by country of the store and quarter
SELECT a.country, d.year, d.quarter, count(*) AS sales, sum(s.quantity * s.unit_price) AS revenue
  FROM store_sales AS s
  JOIN days AS d ON d.day = s.sold_on
  JOIN stores AS t ON t.store_id = s.store_id
  JOIN addresses AS a ON a.address_id = t.address_id
 GROUP BY a.country, d.year, d.quarter;

-- margin_by_maker: revenue less cost, by maker of the brand and root of the category
SELECT b.maker, c.name AS category, sum(s.quantity * (s.unit_price - i.cost)) AS margin,
       avg(s.unit_price) AS average_price
  FROM web_sales AS s
  JOIN items AS i ON i.item_id = s.item_id
  JOIN brands AS b ON b.brand_id = i.brand_id
  JOIN categories AS c ON c.category_id = i.category_id
 GROUP BY b.maker, c.name;

-- holiday_baskets: tickets of holidays with their lines, in stores that are open
SELECT s.ticket, t.name AS store, d.holiday, count(*) AS lines,
       sum(s.quantity * s.unit_price - coalesce(s.discount, 0)) AS paid
  FROM store_sales AS s
  JOIN days AS d ON d.day = s.sold_on AND d.holiday IS NOT NULL
  JOIN stores AS t ON t.store_id = s.store_id AND t.closed IS NULL
 GROUP BY s.ticket, t.name, d.holiday;

-- promoted_share: how much of a category's sales stood under a promotion
SELECT c.name, count(*) AS sales, count(p.promotion_id) AS promoted,
       round(100.0 * count(p.promotion_id) / count(*), 1) AS share
  FROM catalog_sales AS s
  JOIN items AS i ON i.item_id = s.item_id
  LEFT JOIN categories AS c ON c.category_id = i.category_id
  LEFT JOIN promotions AS p
    ON p.promotion_id = s.promotion_id AND s.sold_on BETWEEN p.starts AND p.ends
 GROUP BY c.name;

-- home_and_ship: web sales that went to another country than the customer's own
SELECT home.country AS home, away.country AS away, s.site, count(*) AS parcels,
       sum(s.shipping) AS shipping, max(s.sold_at) AS latest
  FROM web_sales AS s
  JOIN customers AS c ON c.customer_id = s.customer_id
  JOIN addresses AS home ON home.address_id = c.address_id
  JOIN addresses AS away ON away.address_id = s.address_id
 WHERE home.country <> away.country
 GROUP BY home.country, away.country, s.site;

-- sellers_and_bosses: what each seller sold, beside the seller's boss and store
SELECT e.name AS seller, b.name AS boss, t.name AS store, sum(s.quantity) AS pieces,
       sum(s.unit_price * s.quantity) / nullif(sum(s.quantity), 0) AS price_a_piece
  FROM store_sales AS s
  JOIN employees AS e ON e.employee_id = s.employee_id
  LEFT JOIN employees AS b ON b.employee_id = e.boss_id
  JOIN stores AS t ON t.store_id = s.store_id
 GROUP BY e.employee_id, e.name, b.name, t.name;

-- detail_lines: single expensive lines with everything that describes them
SELECT s.sale_id, s.sold_on, c.last_name, c.segment, i.title, b.name AS brand, g.name AS category,
       s.quantity * s.unit_price AS amount
  FROM store_sales AS s
  JOIN customers AS c ON c.customer_id = s.customer_id
  JOIN items AS i ON i.item_id = s.item_id
  LEFT JOIN brands AS b ON b.brand_id = i.brand_id
  LEFT JOIN categories AS g ON g.category_id = i.category_id
 WHERE s.quantity * s.unit_price > 2000;

-- segments_by_weekday: which customers buy on which day of the week
SELECT c.segment, d.weekday, count(DISTINCT s.customer_id) AS customers, count(*) AS sales,
       min(s.unit_price) AS cheapest, max(s.unit_price) AS dearest
  FROM store_sales AS s
  JOIN customers AS c USING (customer_id)
  JOIN days AS d ON d.day = s.sold_on
 GROUP BY c.segment, d.weekday;

-- refunds_by_city: returned amounts by city of the customer, large ones only
SELECT a.city, a.state, count(*) AS returns, sum(r.amount) AS amount, avg(r.amount) AS average
  FROM returns AS r
  JOIN customers AS c ON c.customer_id = r.customer_id
  JOIN addresses AS a ON a.address_id = c.address_id
  JOIN items AS i ON i.item_id = r.item_id
 WHERE i.list_price > 50
 GROUP BY a.city, a.state
HAVING sum(r.amount) > 500;
