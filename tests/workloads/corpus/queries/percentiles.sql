-- Percentiles, modes, deviations and other statistics.

-- median_price: median, ninth decile and mode of the prices of a category
SELECT i.category_id, percentile_cont(0.5) WITHIN GROUP (ORDER BY s.unit_price) AS median,
       percentile_disc(0.9) WITHIN GROUP (ORDER BY s.unit_price) AS ninth_decile,
       mode() WITHIN GROUP (ORDER BY s.quantity) AS usual_quantity
  FROM store_sales AS s JOIN items AS i ON i.item_id = s.item_id
 GROUP BY i.category_id;

-- quartiles_of_baskets: three quartiles of what a ticket costs, by store
SELECT store_id, percentile_disc(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY paid) AS quartiles
  FROM (SELECT store_id, ticket, sum(quantity * unit_price) AS paid FROM store_sales
         GROUP BY store_id, ticket) AS baskets
 GROUP BY store_id;

-- spread: deviation and variance of prices by brand
SELECT b.name, stddev_samp(s.unit_price) AS deviation, var_pop(s.unit_price) AS variance,
       stddev_pop(s.quantity) AS of_quantities, count(s.unit_price) AS prices
  FROM web_sales AS s
  JOIN items AS i ON i.item_id = s.item_id
  JOIN brands AS b ON b.brand_id = i.brand_id
 GROUP BY b.name;

-- coefficient: items whose daily quantities vary by more than half of their mean
SELECT item_id, avg(quantity) AS mean, stddev_samp(quantity) AS deviation,
       stddev_samp(quantity) / avg(quantity) AS coefficient
  FROM store_sales
 GROUP BY item_id
HAVING stddev_samp(quantity) / nullif(avg(quantity), 0) > 0.5;

-- delay_deciles: deciles of the days until shipment, by site
SELECT site, percentile_cont(0.1) WITHIN GROUP (ORDER BY shipped_on - sold_at::date) AS fast,
       percentile_cont(0.9) WITHIN GROUP (ORDER BY shipped_on - sold_at::date) AS slow
  FROM web_sales WHERE shipped_on IS NOT NULL GROUP BY site;

-- median_of_sums: the median of what customers spent, by segment
SELECT c.segment, percentile_cont(0.5) WITHIN GROUP (ORDER BY t.spent) AS median, count(*) AS customers
  FROM customers AS c
  JOIN (SELECT customer_id, sum(quantity * unit_price) AS spent FROM catalog_sales
         GROUP BY customer_id) AS t ON t.customer_id = c.customer_id
 GROUP BY c.segment;

-- outliers: lines above the item's median by more than a factor of two
SELECT s.sale_id, s.item_id, s.unit_price, m.median
  FROM catalog_sales AS s
  JOIN (SELECT item_id, percentile_disc(0.5) WITHIN GROUP (ORDER BY unit_price) AS median
          FROM catalog_sales GROUP BY item_id) AS m ON m.item_id = s.item_id
 WHERE s.unit_price > 2 * m.median;

-- cume_dist: position of a store in the distribution of revenues of its month
SELECT store_id, month, revenue,
       cume_dist() OVER (PARTITION BY month ORDER BY revenue) AS position
  FROM (SELECT store_id, date_trunc('month', sold_on)::date AS month, sum(unit_price) AS revenue
          FROM store_sales WHERE sold_on < '2023-07-01' GROUP BY 1, 2) AS monthly;

-- hypothetical: where a price of 100 would stand among the prices of an item
SELECT item_id, rank(100.00) WITHIN GROUP (ORDER BY unit_price) AS place, count(*) AS prices
  FROM web_sales GROUP BY item_id;

-- flags: pairs, conditions and bits over all lines of a store
SELECT store_id, regr_count(quantity, employee_id) AS pairs, bool_and(quantity > 0) AS all_positive,
       bit_or(quantity) AS bits, every(unit_price > 1) AS priced
  FROM store_sales GROUP BY store_id;
