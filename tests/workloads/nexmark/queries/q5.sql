-- Hot items: the auctions with the most bids in windows of ten seconds, one every two seconds.
WITH counted AS (
    SELECT auction, window_start, count(*) AS bids
      FROM bid,
           LATERAL generate_series(
               date_bin('2 seconds', date_time, timestamp '2020-01-01') - interval '8 seconds',
               date_bin('2 seconds', date_time, timestamp '2020-01-01'),
               interval '2 seconds') AS hop (window_start)
     GROUP BY auction, window_start)
SELECT c.auction, c.bids, c.window_start, c.window_start + interval '10 seconds' AS window_end
  FROM counted AS c
  JOIN (SELECT window_start, max(bids) AS most FROM counted GROUP BY window_start) AS hottest
    ON hottest.window_start = c.window_start AND c.bids >= hottest.most
