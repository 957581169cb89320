-- Grouping sets, rollups and cubes, with grouping().

-- sales_by_place: revenue by country, state and city, with every subtotal
SELECT a.country, a.state, a.city, grouping(a.country, a.state, a.city) AS level,
       sum(s.quantity * s.unit_price) AS revenue, count(*) AS sales
  FROM web_sales AS s JOIN addresses AS a ON a.address_id = s.address_id
 GROUP BY ROLLUP (a.country, a.state, a.city);

-- colour_and_size: pieces by colour and size, as a cube
SELECT i.colour, i.attributes ->> 'size' AS size, sum(s.quantity) AS pieces,
       grouping(i.colour) AS all_colours, grouping(i.attributes ->> 'size') AS all_sizes
  FROM store_sales AS s JOIN items AS i ON i.item_id = s.item_id
 GROUP BY CUBE (i.colour, i.attributes ->> 'size');

-- chosen_sets: by year and by segment, and the whole
SELECT d.year, c.segment, count(*) AS sales, avg(s.unit_price) AS price
  FROM catalog_sales AS s
  JOIN days AS d ON d.day = s.sold_on
  JOIN customers AS c ON c.customer_id = s.customer_id
 GROUP BY GROUPING SETS ((d.year), (c.segment), ());

-- channels_rolled_up: three channels one under the other, rolled up by channel and year
SELECT channel, year, sum(amount) AS amount, count(*) AS sales
  FROM (SELECT 'store' AS channel, extract(year FROM sold_on)::int AS year,
               quantity * unit_price AS amount FROM store_sales
        UNION ALL
        SELECT 'catalog', extract(year FROM sold_on)::int, quantity * unit_price
          FROM catalog_sales
        UNION ALL
        SELECT 'web', extract(year FROM sold_at)::int, quantity * unit_price
          FROM web_sales) AS sold
 GROUP BY ROLLUP (channel, year);

-- rank_in_level: the rank of a revenue among the others of its level
SELECT i.category_id, i.brand_id, sum(s.unit_price) AS revenue,
       grouping(i.category_id) + grouping(i.brand_id) AS level,
       rank() OVER (PARTITION BY grouping(i.category_id) + grouping(i.brand_id)
                    ORDER BY sum(s.unit_price) DESC) AS place
  FROM web_sales AS s JOIN items AS i ON i.item_id = s.item_id
 GROUP BY ROLLUP (i.category_id, i.brand_id);

-- named_totals: totals with a name in place of NULL
SELECT CASE WHEN grouping(t.name) = 1 THEN 'all stores' ELSE t.name END AS store,
       CASE WHEN grouping(d.quarter) = 1 THEN 'year' ELSE 'Q' || d.quarter END AS period,
       sum(s.quantity) AS pieces
  FROM store_sales AS s
  JOIN stores AS t ON t.store_id = s.store_id
  JOIN days AS d ON d.day = s.sold_on
 WHERE d.year = 2024
 GROUP BY ROLLUP (t.name, d.quarter);

-- subtotals_kept: only the subtotals that exceed an amount
SELECT channel, reason, sum(amount) AS amount, count(*) AS returns
  FROM returns
 GROUP BY CUBE (channel, reason)
HAVING grouping(channel, reason) > 0 AND sum(amount) > 1000;

-- two_rollups: rollups of time and place crossed
SELECT d.year, d.quarter, r.channel, sum(r.quantity) AS pieces,
       grouping(d.year, d.quarter, r.channel) AS level
  FROM returns AS r JOIN days AS d ON d.day = r.returned_on
 GROUP BY ROLLUP (d.year, d.quarter), ROLLUP (r.channel);
