-- Year over year, shares and other ratios of numerics.

-- year_over_year: revenue of a category in both years, and its growth
SELECT c.name,
       sum(s.quantity * s.unit_price) FILTER (WHERE d.year = 2023) AS last_year,
       sum(s.quantity * s.unit_price) FILTER (WHERE d.year = 2024) AS this_year,
       sum(s.quantity * s.unit_price) FILTER (WHERE d.year = 2024)
           / nullif(sum(s.quantity * s.unit_price) FILTER (WHERE d.year = 2023), 0) - 1 AS growth
  FROM store_sales AS s
  JOIN days AS d ON d.day = s.sold_on
  JOIN items AS i ON i.item_id = s.item_id
  JOIN categories AS c ON c.category_id = i.category_id
 GROUP BY c.name;

-- same_month_last_year: each month of 2024 beside the same month of 2023
WITH monthly AS (
    SELECT d.year, d.month, sum(s.quantity * s.unit_price) AS revenue
      FROM catalog_sales AS s JOIN days AS d ON d.day = s.sold_on
     GROUP BY d.year, d.month)
SELECT now_.month, now_.revenue, before_.revenue AS year_before,
       now_.revenue / before_.revenue AS ratio
  FROM monthly AS now_
  JOIN monthly AS before_ ON before_.month = now_.month AND before_.year = now_.year - 1
 WHERE before_.revenue <> 0;

-- quarter_growth: growth of each store from quarter to quarter, by lag
WITH quarterly AS (
    SELECT s.store_id, d.year, d.quarter, sum(s.unit_price) AS revenue
      FROM store_sales AS s JOIN days AS d ON d.day = s.sold_on
     GROUP BY s.store_id, d.year, d.quarter)
SELECT store_id, year, quarter, revenue,
       round(revenue / lag(revenue) OVER (PARTITION BY store_id ORDER BY year, quarter), 4) AS growth
  FROM quarterly;

-- share_of_total: what part of all web revenue each brand has
SELECT b.name, sum(s.unit_price) AS revenue,
       sum(s.unit_price) * 100 / (SELECT sum(unit_price) FROM web_sales) AS percent
  FROM web_sales AS s
  JOIN items AS i ON i.item_id = s.item_id
  JOIN brands AS b ON b.brand_id = i.brand_id
 GROUP BY b.name;

-- share_in_category: an item's part of its category's revenue, by a window over sums
SELECT i.category_id, i.item_id, sum(s.unit_price * s.quantity) AS revenue,
       sum(s.unit_price * s.quantity) / sum(sum(s.unit_price * s.quantity))
           OVER (PARTITION BY i.category_id) AS share
  FROM store_sales AS s
  JOIN items AS i ON i.item_id = s.item_id
 GROUP BY i.category_id, i.item_id;

-- return_rate: returned pieces for each hundred sold, by item
SELECT i.item_id, i.title, sold.pieces, back.pieces AS returned,
       100.0 * coalesce(back.pieces, 0) / sold.pieces AS rate
  FROM items AS i
  JOIN (SELECT item_id, sum(quantity) AS pieces FROM store_sales GROUP BY item_id) AS sold
    ON sold.item_id = i.item_id
  LEFT JOIN (SELECT item_id, sum(quantity) AS pieces FROM returns GROUP BY item_id) AS back
    ON back.item_id = i.item_id
 WHERE sold.pieces > 0;

-- markup: list price over cost across items and what was really paid
SELECT i.item_id, i.list_price / nullif(i.cost, 0) AS planned,
       avg(s.unit_price) / nullif(i.cost, 0) AS real,
       avg(s.unit_price) - i.list_price AS deviation
  FROM items AS i
  JOIN catalog_sales AS s ON s.item_id = i.item_id
 GROUP BY i.item_id, i.list_price, i.cost;

-- price_index: unit price as a part of the list price, line by line
SELECT s.sale_id, s.unit_price, i.list_price, s.unit_price / i.list_price AS index,
       round(s.unit_price * 100 / i.list_price) AS percent
  FROM web_sales AS s JOIN items AS i ON i.item_id = s.item_id
 WHERE s.quantity >= 8;

-- discount_depth: given discounts as a part of gross revenue, and promised rates
SELECT p.promotion_id, p.name, p.rate, sum(s.discount) / sum(s.unit_price * s.quantity) AS given,
       avg(s.discount) * p.rate AS weighted
  FROM store_sales AS s JOIN promotions AS p ON p.promotion_id = s.promotion_id
 GROUP BY p.promotion_id, p.name, p.rate
HAVING sum(s.unit_price * s.quantity) > 0;

-- weight_by_price: unconstrained weights, their sums, averages and price a kilogram
SELECT colour, sum(weight) AS weight, avg(weight) AS average, max(weight) AS heaviest,
       sum(list_price) / sum(weight) AS price_a_kilogram
  FROM items GROUP BY colour;
