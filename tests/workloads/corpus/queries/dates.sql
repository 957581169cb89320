-- Date and time functions, of one table and across tables.

-- by_hour: web sales by hour of the day and day of the week
SELECT extract(hour FROM sold_at)::int AS hour, extract(isodow FROM sold_at)::int AS weekday,
       count(*) AS sales, sum(unit_price) AS revenue
  FROM web_sales GROUP BY 1, 2;

-- age_classes: revenue by the age of the customer on the day of the sale
SELECT (s.sold_on - c.born) / 3652 * 10 AS age, count(*) AS sales, avg(s.unit_price) AS price
  FROM store_sales AS s JOIN customers AS c ON c.customer_id = s.customer_id
 GROUP BY (s.sold_on - c.born) / 3652 * 10;

-- exact_age: the same by calendar years, with age()
SELECT extract(year FROM age(s.sold_on, c.born))::int AS age, count(*) AS sales
  FROM catalog_sales AS s JOIN customers AS c ON c.customer_id = s.customer_id
 GROUP BY extract(year FROM age(s.sold_on, c.born))::int;

-- returned_soon: returns within 30 days of their sale in a store
SELECT r.return_id, s.sale_id, r.returned_on - s.sold_on AS days, r.amount
  FROM returns AS r
  JOIN store_sales AS s ON s.sale_id = r.sale_id AND r.channel = 'store'
 WHERE r.returned_on BETWEEN s.sold_on AND s.sold_on + 30;

-- birthday_month: purchases in the month of the customer's birthday
SELECT c.customer_id, count(*) AS purchases
  FROM store_sales AS s JOIN customers AS c ON c.customer_id = s.customer_id
 WHERE extract(month FROM s.sold_on) = extract(month FROM c.born)
 GROUP BY c.customer_id;

-- same_month_as_sign_up: customers who bought in the month in which they signed up
SELECT c.customer_id, date_trunc('month', c.signed_up)::date AS month, sum(s.unit_price) AS spent
  FROM customers AS c JOIN web_sales AS s ON s.customer_id = c.customer_id
 WHERE date_trunc('month', s.sold_at) = date_trunc('month', c.signed_up)
 GROUP BY c.customer_id, date_trunc('month', c.signed_up)::date;

-- calendar: every day of a quarter, also those without sales
SELECT d.day, d.weekday, count(s.sale_id) AS sales, coalesce(sum(s.unit_price), 0) AS revenue
  FROM days AS d LEFT JOIN store_sales AS s ON s.sold_on = d.day
 WHERE d.year = 2024 AND d.quarter = 2
 GROUP BY d.day, d.weekday;

-- time_to_ship: average time from order to shipment, as an interval
SELECT site, avg(shipped_on::timestamp - sold_at) AS average, max(shipped_on::timestamp - sold_at) AS longest
  FROM web_sales WHERE shipped_on IS NOT NULL GROUP BY site;

-- six_hour_bins: events by kind in bins of six hours
SELECT date_bin('6 hours', at, timestamp '2024-03-01') AS bin, kind, count(*) AS events
  FROM events GROUP BY 1, 2;

-- tenure: sales of employees by full years with the company
SELECT e.title, extract(year FROM s.sold_on)::int - extract(year FROM e.hired)::int AS years,
       count(*) AS sales, avg(s.quantity) AS pieces
  FROM store_sales AS s JOIN employees AS e ON e.employee_id = s.employee_id
 GROUP BY 1, 2;

-- readable_months: revenue by the name of a month, for people
SELECT to_char(s.sold_on, 'YYYY Mon') AS month, to_char(sum(s.unit_price), 'FM999G990D00') AS revenue,
       min(s.sold_on) AS first_day
  FROM catalog_sales AS s GROUP BY to_char(s.sold_on, 'YYYY Mon');

-- shift_by_interval: web sales that a support event of the same customer followed within a week
SELECT s.sale_id, s.sold_at, count(*) AS events
  FROM web_sales AS s
  JOIN events AS e ON e.customer_id = s.customer_id
                  AND e.at >= s.sold_at AND e.at < s.sold_at + interval '7 days'
 GROUP BY s.sale_id, s.sold_at;

-- days_open: days a store has been open, as of its latest sale
SELECT t.store_id, t.name, max(s.sold_on) - t.opened AS days,
       (max(s.sold_on) - t.opened) / 365.25 AS years
  FROM stores AS t JOIN store_sales AS s ON s.store_id = t.store_id
 GROUP BY t.store_id, t.name, t.opened;
