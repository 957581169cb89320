-- CTEs that are used more than once.

-- half_years: both halves of 2024 by store, from one CTE
WITH sold AS (
    SELECT s.store_id, d.month, sum(s.quantity * s.unit_price) AS revenue
      FROM store_sales AS s JOIN days AS d ON d.day = s.sold_on
     WHERE d.year = 2024 GROUP BY s.store_id, d.month)
SELECT t.name, one.revenue AS first_half, two.revenue AS second_half, two.revenue - one.revenue AS gain
  FROM stores AS t
  LEFT JOIN (SELECT store_id, sum(revenue) AS revenue FROM sold WHERE month <= 6 GROUP BY store_id) AS one
    ON one.store_id = t.store_id
  LEFT JOIN (SELECT store_id, sum(revenue) AS revenue FROM sold WHERE month > 6 GROUP BY store_id) AS two
    ON two.store_id = t.store_id;

-- above_overall: brands with more than the average revenue of all brands
WITH by_brand AS (
    SELECT b.name, sum(s.quantity * s.unit_price) AS revenue
      FROM web_sales AS s
      JOIN items AS i ON i.item_id = s.item_id
      JOIN brands AS b ON b.brand_id = i.brand_id
     GROUP BY b.name)
SELECT name, revenue, revenue - (SELECT avg(revenue) FROM by_brand) AS above
  FROM by_brand WHERE revenue > (SELECT avg(revenue) FROM by_brand);

-- top_revenue: the item with the highest revenue, by a maximum over the same CTE
WITH revenue AS (
    SELECT item_id, sum(quantity * unit_price) AS total FROM catalog_sales GROUP BY item_id)
SELECT i.item_id, i.title, r.total
  FROM revenue AS r JOIN items AS i ON i.item_id = r.item_id
 WHERE r.total = (SELECT max(total) FROM revenue);

-- item_pairs: pairs of items that are on many tickets together
WITH lines AS (SELECT DISTINCT ticket, item_id FROM store_sales WHERE item_id <= 40)
SELECT a.item_id AS one, b.item_id AS other, count(*) AS tickets
  FROM lines AS a JOIN lines AS b ON b.ticket = a.ticket AND b.item_id > a.item_id
 GROUP BY a.item_id, b.item_id HAVING count(*) >= 2;

-- lift: how much more often two items are bought together than by chance
WITH lines AS (SELECT DISTINCT ticket, item_id FROM store_sales WHERE item_id <= 15),
singles AS (SELECT item_id, count(*) AS n FROM lines GROUP BY item_id),
pairs AS (
    SELECT a.item_id AS one, b.item_id AS other, count(*) AS n
      FROM lines AS a JOIN lines AS b ON b.ticket = a.ticket AND b.item_id > a.item_id
     GROUP BY a.item_id, b.item_id),
everything AS (SELECT count(DISTINCT ticket) AS n FROM store_sales)
SELECT p.one, p.other, p.n, round(p.n::numeric * e.n / (x.n * y.n), 3) AS lift
  FROM pairs AS p
  JOIN singles AS x ON x.item_id = p.one
  JOIN singles AS y ON y.item_id = p.other
 CROSS JOIN everything AS e;

-- self_growth: channels by quarter, each beside the quarter before
WITH quarterly AS (
    SELECT 'catalog' AS channel, d.year * 4 + d.quarter AS period, sum(s.unit_price) AS revenue
      FROM catalog_sales AS s JOIN days AS d ON d.day = s.sold_on GROUP BY 2
    UNION ALL
    SELECT 'web', d.year * 4 + d.quarter, sum(s.unit_price)
      FROM web_sales AS s JOIN days AS d ON d.day = s.sold_at::date GROUP BY 2)
SELECT a.channel, a.period, a.revenue, b.revenue AS before,
       round((a.revenue - b.revenue) / b.revenue * 100, 1) AS percent
  FROM quarterly AS a LEFT JOIN quarterly AS b ON b.channel = a.channel AND b.period = a.period - 1;

-- best_customers_best_items: items bought by the customers who spent more than half of the maximum
WITH spent AS (
    SELECT customer_id, sum(quantity * unit_price) AS total FROM store_sales
     WHERE customer_id IS NOT NULL GROUP BY customer_id),
best AS (SELECT customer_id FROM spent WHERE total > 0.5 * (SELECT max(total) FROM spent))
SELECT s.item_id, count(*) AS lines, count(DISTINCT s.customer_id) AS customers
  FROM store_sales AS s
 WHERE s.customer_id IN (SELECT customer_id FROM best)
 GROUP BY s.item_id
UNION ALL
SELECT NULL, count(*), count(*) FROM best;

-- chained: four CTEs, each over the one before
WITH lines AS (
    SELECT s.customer_id, s.quantity * s.unit_price AS amount, d.quarter
      FROM catalog_sales AS s JOIN days AS d ON d.day = s.sold_on WHERE d.year = 2023),
quarters AS (SELECT customer_id, quarter, sum(amount) AS amount FROM lines GROUP BY customer_id, quarter),
best AS (SELECT customer_id, max(amount) AS best_quarter FROM quarters GROUP BY customer_id),
classes AS (
    SELECT customer_id, CASE WHEN best_quarter >= 2000 THEN 'large' WHEN best_quarter >= 500 THEN 'middle'
                             ELSE 'small' END AS class
      FROM best)
SELECT k.class, count(DISTINCT k.customer_id) AS customers, sum(q.amount) AS amount
  FROM classes AS k JOIN quarters AS q ON q.customer_id = k.customer_id GROUP BY k.class;

-- two_sided: returns beside sales by item and quarter, each summed in its own CTE, used in two branches
WITH sold AS (
    SELECT s.item_id, d.year, d.quarter, sum(s.quantity) AS pieces
      FROM store_sales AS s JOIN days AS d ON d.day = s.sold_on GROUP BY 1, 2, 3),
back AS (
    SELECT r.item_id, d.year, d.quarter, sum(r.quantity) AS pieces
      FROM returns AS r JOIN days AS d ON d.day = r.returned_on GROUP BY 1, 2, 3)
SELECT 'both' AS part, s.item_id, s.year, s.quarter, s.pieces, b.pieces AS returned
  FROM sold AS s JOIN back AS b USING (item_id, year, quarter)
 WHERE b.pieces > s.pieces
UNION ALL
SELECT 'returned only', b.item_id, b.year, b.quarter, NULL, b.pieces
  FROM back AS b WHERE NOT EXISTS (
       SELECT 1 FROM sold AS s WHERE s.item_id = b.item_id AND s.year = b.year AND s.quarter = b.quarter);


-- channels_year_over_year: kinds of items that sell in all three channels, above the average line, beside
-- the year before and beside everything; written out at each use, its CTEs are 702 tables
WITH sold AS (
    SELECT 'store' AS channel, d.year, i.brand_id, i.category_id, s.quantity * s.unit_price AS amount
      FROM store_sales AS s JOIN days AS d ON d.day = s.sold_on JOIN items AS i USING (item_id)
    UNION ALL
    SELECT 'catalogue', d.year, i.brand_id, i.category_id, s.quantity * s.unit_price
      FROM catalog_sales AS s JOIN days AS d ON d.day = s.sold_on JOIN items AS i USING (item_id)
    UNION ALL
    SELECT 'web', d.year, i.brand_id, i.category_id, s.quantity * s.unit_price
      FROM web_sales AS s JOIN days AS d ON d.day = s.sold_at::date JOIN items AS i USING (item_id)),
kinds AS (
    SELECT brand_id, category_id FROM sold WHERE channel = 'store'
    INTERSECT
    SELECT brand_id, category_id FROM sold WHERE channel = 'catalogue'
    INTERSECT
    SELECT brand_id, category_id FROM sold WHERE channel = 'web'),
chosen AS (SELECT i.item_id, brand_id, category_id FROM items AS i JOIN kinds USING (brand_id, category_id)),
average AS (SELECT avg(amount) AS amount FROM sold),
channels AS (
    SELECT 'store' AS channel, d.year, c.brand_id, c.category_id,
           sum(s.quantity * s.unit_price) AS sales, count(*) AS lines
      FROM store_sales AS s JOIN chosen AS c USING (item_id) JOIN days AS d ON d.day = s.sold_on
     GROUP BY d.year, c.brand_id, c.category_id
    HAVING sum(s.quantity * s.unit_price) > (SELECT amount FROM average)
    UNION ALL
    SELECT 'catalogue', d.year, c.brand_id, c.category_id, sum(s.quantity * s.unit_price), count(*)
      FROM catalog_sales AS s JOIN chosen AS c USING (item_id) JOIN days AS d ON d.day = s.sold_on
     GROUP BY d.year, c.brand_id, c.category_id
    HAVING sum(s.quantity * s.unit_price) > (SELECT amount FROM average)
    UNION ALL
    SELECT 'web', d.year, c.brand_id, c.category_id, sum(s.quantity * s.unit_price), count(*)
      FROM web_sales AS s JOIN chosen AS c USING (item_id) JOIN days AS d ON d.day = s.sold_at::date
     GROUP BY d.year, c.brand_id, c.category_id
    HAVING sum(s.quantity * s.unit_price) > (SELECT amount FROM average)),
yearly AS (
    SELECT channel, year, brand_id, category_id, sum(sales) AS sales, sum(lines) AS lines
      FROM channels GROUP BY ROLLUP (channel), year, brand_id, category_id)
SELECT coalesce(this.channel, 'all') AS channel, this.brand_id, this.category_id, this.sales, this.lines,
       before.sales AS sales_before, round(this.sales / before.sales, 3) AS ratio,
       round(100 * this.sales / (SELECT sum(sales) FROM yearly WHERE channel IS NULL AND year = 2024), 2)
           AS percent
  FROM yearly AS this
  LEFT JOIN yearly AS before
    ON before.year = this.year - 1 AND before.brand_id = this.brand_id
   AND before.category_id = this.category_id AND before.channel IS NOT DISTINCT FROM this.channel
 WHERE this.year = 2024;
