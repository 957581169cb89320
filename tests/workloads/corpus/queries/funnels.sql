-- Funnels, cohorts and retention.

-- steps: how many visitors viewed, then put into the cart, then bought
SELECT count(*) AS visitors, count(viewed) AS viewed,
       count(*) FILTER (WHERE carted > viewed) AS carted,
       count(*) FILTER (WHERE carted > viewed AND bought > carted) AS bought
  FROM (SELECT visitor, min(at) FILTER (WHERE kind = 'view') AS viewed,
               min(at) FILTER (WHERE kind = 'cart') AS carted,
               min(at) FILTER (WHERE kind = 'buy') AS bought
          FROM events GROUP BY visitor) AS first_times;

-- steps_by_device: the same by the device of the first visit, as rates
WITH entry AS (
    SELECT DISTINCT ON (visitor) visitor, payload ->> 'device' AS device, at
      FROM events ORDER BY visitor, at, event_id),
reached AS (
    SELECT e.visitor, bool_or(e.kind = 'cart') AS carted, bool_or(e.kind = 'buy') AS bought
      FROM events AS e GROUP BY e.visitor)
SELECT entry.device, count(*) AS visitors,
       round(100.0 * count(*) FILTER (WHERE reached.carted) / count(*), 2) AS carted,
       round(100.0 * count(*) FILTER (WHERE reached.bought) / count(*), 2) AS bought
  FROM entry JOIN reached ON reached.visitor = entry.visitor
 GROUP BY entry.device;

-- ordered_funnel: views followed within five days by a cart event of the same item
SELECT v.visitor, v.event_id AS viewed, min(c.at) - v.at AS waited
  FROM events AS v
  JOIN events AS c ON c.visitor = v.visitor AND c.kind = 'cart'
                  AND c.payload -> 'item' = v.payload -> 'item'
                  AND c.at > v.at AND c.at < v.at + interval '5 days'
 WHERE v.kind = 'view'
 GROUP BY v.visitor, v.event_id, v.at;

-- abandoned_carts: visitors whose latest cart event no purchase followed
SELECT e.visitor, max(e.at) AS carted
  FROM events AS e
 WHERE e.kind = 'cart'
   AND NOT EXISTS (SELECT 1 FROM events AS b
                    WHERE b.visitor = e.visitor AND b.kind = 'buy' AND b.at > e.at)
 GROUP BY e.visitor;

-- cohort_sizes: customers by month of their first purchase in a store
SELECT date_trunc('month', first_day)::date AS cohort, count(*) AS customers
  FROM (SELECT customer_id, min(sold_on) AS first_day FROM store_sales
         WHERE customer_id IS NOT NULL GROUP BY customer_id) AS firsts
 GROUP BY 1;

-- retention: how many customers of a cohort bought again, by quarters since the first purchase
WITH firsts AS (
    SELECT customer_id, date_trunc('quarter', min(sold_on))::date AS cohort
      FROM store_sales WHERE customer_id IS NOT NULL GROUP BY customer_id)
SELECT f.cohort, (s.sold_on - f.cohort) / 91 AS quarters, count(DISTINCT s.customer_id) AS active
  FROM store_sales AS s JOIN firsts AS f ON f.customer_id = s.customer_id
 GROUP BY f.cohort, (s.sold_on - f.cohort) / 91;

-- retention_rate: the active part of each cohort in each quarter
WITH firsts AS (
    SELECT customer_id, min(sold_on) AS first_day
      FROM store_sales WHERE customer_id IS NOT NULL GROUP BY customer_id),
sizes AS (
    SELECT extract(year FROM first_day)::int AS cohort, count(*) AS size FROM firsts GROUP BY 1),
active AS (
    SELECT extract(year FROM f.first_day)::int AS cohort, extract(quarter FROM s.sold_on)::int AS quarter,
           count(DISTINCT s.customer_id) AS customers
      FROM store_sales AS s JOIN firsts AS f ON f.customer_id = s.customer_id
     GROUP BY 1, 2)
SELECT a.cohort, a.quarter, a.customers, s.size, a.customers::numeric / s.size AS rate
  FROM active AS a JOIN sizes AS s ON s.cohort = a.cohort;

-- sign_up_to_purchase: days from signing up to the first web purchase, by segment
SELECT c.segment, count(*) AS customers, avg(f.first_day - c.signed_up) AS days,
       min(f.first_day - c.signed_up) AS soonest
  FROM customers AS c
  JOIN (SELECT customer_id, min(sold_at)::date AS first_day FROM web_sales GROUP BY customer_id) AS f
    ON f.customer_id = c.customer_id
 WHERE f.first_day >= c.signed_up
 GROUP BY c.segment;

-- lifetime_value: what a cohort of customers spent in all channels, by year of signing up
SELECT extract(year FROM c.signed_up)::int AS cohort, count(DISTINCT c.customer_id) AS customers,
       sum(m.amount) AS spent, sum(m.amount) / count(DISTINCT c.customer_id) AS value
  FROM customers AS c
  JOIN (SELECT customer_id, quantity * unit_price AS amount FROM store_sales
        UNION ALL SELECT customer_id, quantity * unit_price FROM catalog_sales
        UNION ALL SELECT customer_id, quantity * unit_price FROM web_sales) AS m
    ON m.customer_id = c.customer_id
 GROUP BY 1;

-- new_or_returning: lines of each month by whether the customer had bought before
SELECT date_trunc('month', sold_on)::date AS month, count(*) FILTER (WHERE nth = 1) AS new,
       count(*) FILTER (WHERE nth > 1) AS returning
  FROM (SELECT sold_on, row_number() OVER (PARTITION BY customer_id ORDER BY sold_on, sale_id) AS nth
          FROM catalog_sales WHERE customer_id IS NOT NULL) AS purchases
 GROUP BY 1;

-- referral_value: what those who were referred spent, by who referred them
SELECT r.customer_id, r.last_name, count(DISTINCT c.customer_id) AS referred,
       coalesce(sum(s.unit_price), 0) AS spent
  FROM customers AS r
  JOIN customers AS c ON c.referred_by = r.customer_id
  LEFT JOIN web_sales AS s ON s.customer_id = c.customer_id
 GROUP BY r.customer_id, r.last_name
HAVING count(DISTINCT c.customer_id) > 1;
