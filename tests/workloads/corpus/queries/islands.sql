-- Gaps and islands, sessions and streaks.

-- buying_weeks: runs of consecutive weeks in which a customer bought in stores
WITH weeks AS (
    SELECT DISTINCT customer_id, (sold_on - date '2023-01-02') / 7 AS week
      FROM store_sales WHERE customer_id <= 30),
numbered AS (
    SELECT customer_id, week, week - row_number() OVER (PARTITION BY customer_id ORDER BY week) AS island
      FROM weeks)
SELECT customer_id, min(week) AS first_week, max(week) AS last_week, count(*) AS weeks
  FROM numbered GROUP BY customer_id, island HAVING count(*) > 1;

-- days_without_sales: gaps of a store between two days with sales
SELECT store_id, sold_on AS last_day, next_day, next_day - sold_on - 1 AS days
  FROM (SELECT store_id, sold_on,
               lead(sold_on) OVER (PARTITION BY store_id ORDER BY sold_on) AS next_day
          FROM (SELECT DISTINCT store_id, sold_on FROM store_sales) AS selling) AS followed
 WHERE next_day - sold_on > 10;

-- sessions: visits of the web shop, a new one after twelve hours without an event
WITH marked AS (
    SELECT visitor, at, event_id,
           CASE WHEN at - lag(at) OVER (PARTITION BY visitor ORDER BY at, event_id)
                     <= interval '12 hours' THEN 0 ELSE 1 END AS begins
      FROM events),
numbered AS (
    SELECT visitor, at, sum(begins) OVER (PARTITION BY visitor ORDER BY at, event_id) AS session
      FROM marked)
SELECT visitor, session, min(at) AS began, max(at) - min(at) AS lasted, count(*) AS events
  FROM numbered GROUP BY visitor, session;

-- price_streaks: runs of rising prices of an item in the catalogue
WITH compared AS (
    SELECT item_id, sale_id, sold_on, unit_price,
           CASE WHEN unit_price > lag(unit_price) OVER w THEN 0 ELSE 1 END AS breaks
      FROM catalog_sales
    WINDOW w AS (PARTITION BY item_id ORDER BY sold_on, sale_id)),
runs AS (
    SELECT item_id, sold_on, unit_price,
           sum(breaks) OVER (PARTITION BY item_id ORDER BY sold_on, sale_id) AS run
      FROM compared)
SELECT item_id, run, count(*) AS length, min(sold_on) AS since, max(unit_price) - min(unit_price) AS rise
  FROM runs GROUP BY item_id, run HAVING count(*) >= 3;

-- empty_shelves: islands of counts below twenty pieces, by difference of row numbers
SELECT item_id, store_id, min(counted_on) AS since, max(counted_on) AS until, count(*) AS counts
  FROM (SELECT item_id, store_id, counted_on, coalesce(on_hand, 0) < 20 AS low,
               row_number() OVER (PARTITION BY item_id, store_id ORDER BY counted_on)
               - row_number() OVER (PARTITION BY item_id, store_id, coalesce(on_hand, 0) < 20
                                    ORDER BY counted_on) AS island
          FROM stock) AS runs
 WHERE low
 GROUP BY item_id, store_id, island;

-- missing_counts: weeks without a count between the first and the last of each shelf
SELECT span.item_id, span.store_id, week.day::date AS missing
  FROM (SELECT item_id, store_id, min(counted_on) AS first_day, max(counted_on) AS last_day
          FROM stock WHERE item_id <= 4 GROUP BY item_id, store_id) AS span
 CROSS JOIN LATERAL generate_series(span.first_day, span.last_day, interval '28 days') AS week (day)
  LEFT JOIN stock AS s ON s.item_id = span.item_id AND s.store_id = span.store_id
                      AND s.counted_on = week.day::date
 WHERE s.item_id IS NULL;

-- overlapping_promotions: promotions of one channel whose times overlap
SELECT a.promotion_id AS one, b.promotion_id AS other, greatest(a.starts, b.starts) AS since,
       least(a.ends, b.ends) AS until
  FROM promotions AS a
  JOIN promotions AS b ON b.channel = a.channel AND b.promotion_id > a.promotion_id
                      AND b.starts <= a.ends AND a.starts <= b.ends;

-- longest_streak: the longest run of days with sales of each site and month, and how many runs
WITH selling AS (SELECT DISTINCT site, sold_at::date AS day FROM web_sales),
islands AS (
    SELECT site, day, day - (row_number() OVER (PARTITION BY site ORDER BY day))::int AS island
      FROM selling),
runs AS (SELECT site, island, count(*) AS days, min(day) AS since FROM islands GROUP BY site, island)
SELECT site, date_trunc('month', since)::date AS month, max(days) AS longest, count(*) AS runs
  FROM runs GROUP BY 1, 2;

-- first_after_pause: purchases after at least 90 days without one
SELECT customer_id, sale_id, sold_on, sold_on - before AS pause
  FROM (SELECT customer_id, sale_id, sold_on,
               lag(sold_on) OVER (PARTITION BY customer_id ORDER BY sold_on, sale_id) AS before
          FROM store_sales) AS followed
 WHERE sold_on - before >= 90 AND customer_id <= 60;
