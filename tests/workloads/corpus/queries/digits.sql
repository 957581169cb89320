-- Digits: numerics as keys, in branches of UNION and CASE, in arithmetic across tables.

-- prices_as_keys: prices that occur in both channels, as the key of a join
SELECT s.unit_price, count(*) AS pairs, min(s.unit_price * 1.0) AS same
  FROM store_sales AS s JOIN web_sales AS w ON w.unit_price = s.unit_price
 GROUP BY s.unit_price;

-- weights_as_groups: unconstrained weights as a group, with different digits in one value
SELECT i.weight, count(*) AS sales, sum(s.quantity * i.weight) AS shipped
  FROM catalog_sales AS s JOIN items AS i ON i.item_id = s.item_id
 GROUP BY i.weight;

-- union_of_scales: amounts of different scales in one column
SELECT 'price' AS what, unit_price AS amount FROM store_sales WHERE sale_id % 40 = 0
UNION ALL
SELECT 'rate', rate FROM promotions
UNION ALL
SELECT 'weight', weight FROM items
UNION ALL
SELECT 'nothing', 0 FROM stores;

-- case_of_scales: a branch without digits beside one with two
SELECT s.sale_id, CASE WHEN p.rate IS NULL THEN 0 ELSE s.unit_price * p.rate END AS saved,
       CASE WHEN s.quantity > 4 THEN s.unit_price ELSE i.weight END AS mixed
  FROM store_sales AS s
  JOIN items AS i ON i.item_id = s.item_id
  LEFT JOIN promotions AS p ON p.promotion_id = s.promotion_id
 WHERE s.sale_id % 7 = 0;

-- sums_of_case: sums whose branches have different scales, which may all be zero
SELECT i.brand_id, sum(CASE WHEN s.quantity > 8 THEN s.unit_price ELSE 0 END) AS large,
       sum(CASE WHEN s.site = 'app' THEN s.unit_price * i.weight ELSE 0 END) AS weighted,
       sum(coalesce(s.discount, 0)) AS discount
  FROM web_sales AS s JOIN items AS i ON i.item_id = s.item_id
 GROUP BY i.brand_id;

-- product_of_three: products across three tables, with all their digits
SELECT s.sale_id, s.unit_price * p.rate * i.weight AS product, s.unit_price + i.weight AS added,
       -s.discount AS negative, round(s.unit_price * p.rate, 1) AS rounded
  FROM catalog_sales AS s
  JOIN items AS i ON i.item_id = s.item_id
  JOIN promotions AS p ON p.promotion_id = s.promotion_id;

-- distinct_numbers: distinct values of weights and prices, one under the other
SELECT weight AS number FROM items WHERE weight IS NOT NULL
UNION
SELECT shipping FROM web_sales WHERE sale_id % 30 = 0;

-- extremes_of_weight: least and greatest of numerics across tables
SELECT s.item_id, greatest(max(s.unit_price), i.list_price) AS highest, least(min(s.unit_price), i.weight) AS lowest,
       max(i.weight) AS weight
  FROM web_sales AS s JOIN items AS i ON i.item_id = s.item_id
 GROUP BY s.item_id, i.list_price, i.weight;

-- averages_of_averages: an average of quotients by group, used as a threshold
WITH rates AS (
    SELECT i.category_id, i.item_id, avg(s.unit_price / i.list_price) AS rate
      FROM store_sales AS s JOIN items AS i ON i.item_id = s.item_id
     GROUP BY i.category_id, i.item_id)
SELECT r.category_id, r.item_id, r.rate
  FROM rates AS r
 WHERE r.rate > (SELECT avg(o.rate) FROM rates AS o WHERE o.category_id = r.category_id);

-- modulo_and_floor: whole and broken parts of amounts across tables
SELECT s.sale_id, floor(s.unit_price / i.list_price) AS whole, mod(s.unit_price, i.list_price) AS rest,
       ceil(s.unit_price * 0.19) AS tax, abs(s.unit_price - i.list_price) AS off,
       trunc(s.unit_price / 3, 3) AS third
  FROM catalog_sales AS s JOIN items AS i ON i.item_id = s.item_id
 WHERE s.sale_id % 5 = 0;
