-- Running totals, moving averages and other windows over rows and over aggregates.

-- running_by_store: revenue of each store, added up day by day
SELECT store_id, sold_on, sum(unit_price) AS revenue,
       sum(sum(unit_price)) OVER (PARTITION BY store_id ORDER BY sold_on) AS so_far
  FROM store_sales GROUP BY store_id, sold_on;

-- moving_average: average of each day and the six days before it
SELECT day, revenue, avg(revenue) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS moving
  FROM (SELECT sold_on AS day, sum(quantity * unit_price) AS revenue
          FROM catalog_sales GROUP BY sold_on) AS daily;

-- moving_by_range: revenue of the last 30 days by item, by a RANGE frame
SELECT item_id, sold_on, sale_id,
       sum(unit_price) OVER (PARTITION BY item_id ORDER BY sold_on
                             RANGE BETWEEN interval '30 days' PRECEDING AND CURRENT ROW) AS recent
  FROM catalog_sales WHERE item_id <= 25;

-- year_to_date: revenue of each month and since the beginning of its year
SELECT d.year, d.month, sum(s.unit_price) AS revenue,
       sum(sum(s.unit_price)) OVER (PARTITION BY d.year ORDER BY d.month) AS year_to_date
  FROM web_sales AS s JOIN days AS d ON d.day = s.sold_at::date
 GROUP BY d.year, d.month;

-- cumulative_share: items by revenue, with the part that they and all better ones have
SELECT item_id, revenue,
       sum(revenue) OVER (ORDER BY revenue DESC NULLS LAST, item_id) / sum(revenue) OVER () AS cumulative
  FROM (SELECT item_id, sum(quantity * unit_price) AS revenue
          FROM web_sales GROUP BY item_id) AS by_item;

-- balance: what a customer bought less what came back, line by line
SELECT customer_id, day, source, id, amount,
       sum(amount) OVER (PARTITION BY customer_id ORDER BY day, source, id) AS balance
  FROM (SELECT customer_id, sold_on AS day, 'sale' AS source, sale_id AS id,
               quantity * unit_price AS amount
          FROM store_sales
        UNION ALL
        SELECT customer_id, returned_on, 'return', return_id, -amount FROM returns) AS moved
 WHERE customer_id BETWEEN 1 AND 20;

-- change_to_previous: change of stock from count to count
SELECT item_id, store_id, counted_on, on_hand,
       on_hand - lag(on_hand) OVER shelf AS change,
       first_value(on_hand) OVER shelf AS at_first
  FROM stock
WINDOW shelf AS (PARTITION BY item_id, store_id ORDER BY counted_on);

-- quartiles: items of a category in four classes of price
SELECT category_id, item_id, list_price,
       ntile(4) OVER (PARTITION BY category_id ORDER BY list_price, item_id) AS quartile,
       percent_rank() OVER (PARTITION BY category_id ORDER BY list_price) AS rank
  FROM items;

-- distance_to_best: each store's monthly revenue and how far it is from the month's best
SELECT store_id, month, revenue, max(revenue) OVER (PARTITION BY month) - revenue AS behind,
       revenue - avg(revenue) OVER (PARTITION BY month) AS above_average
  FROM (SELECT store_id, date_trunc('month', sold_on)::date AS month, sum(unit_price) AS revenue
          FROM store_sales GROUP BY 1, 2) AS monthly;

-- salary_in_store: salaries beside the average and the rank in the store, under the store's name
SELECT t.name AS store, e.name, e.salary, round(avg(e.salary) OVER (PARTITION BY e.store_id), 2) AS average,
       rank() OVER (PARTITION BY e.store_id ORDER BY e.salary DESC) AS place,
       e.salary - lead(e.salary) OVER (PARTITION BY e.store_id ORDER BY e.salary DESC, e.employee_id) AS ahead
  FROM employees AS e JOIN stores AS t ON t.store_id = e.store_id;

-- centred: a centred average over groups of days with EXCLUDE
SELECT day, pieces,
       avg(pieces) OVER (ORDER BY day GROUPS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) AS around
  FROM (SELECT sold_on AS day, sum(quantity) AS pieces FROM store_sales
         WHERE sold_on >= '2024-10-01' GROUP BY sold_on) AS daily;

-- nth_purchase: each customer's third purchase and the days it took to get there
SELECT DISTINCT customer_id,
       nth_value(sale_id, 3) OVER w AS third, nth_value(sold_on, 3) OVER w - first_value(sold_on) OVER w AS days
  FROM store_sales
 WHERE customer_id <= 100
WINDOW w AS (PARTITION BY customer_id ORDER BY sold_on, sale_id
             ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);

-- running_distinct: events of a visitor by day, with running counts of buys
SELECT visitor, at::date AS day, count(*) AS events,
       sum(count(*) FILTER (WHERE kind = 'buy')) OVER (PARTITION BY visitor ORDER BY at::date) AS buys_so_far
  FROM events GROUP BY visitor, at::date;
