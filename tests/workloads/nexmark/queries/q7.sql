-- Highest bid: the bids with the highest price of their ten seconds.
SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
  FROM bid AS b
  JOIN (SELECT window_start,
               window_start + interval '10 seconds' AS window_end,
               max(price) AS highest
          FROM (SELECT price,
                       date_bin('10 seconds', date_time, timestamp '2020-01-01') AS window_start
                  FROM bid) AS placed
         GROUP BY window_start) AS w
    ON b.price = w.highest
   AND b.date_time >= w.window_start
   AND b.date_time < w.window_end
