-- Monitor new users: who opened an auction in the ten seconds in which they registered.
SELECT p.id, p.name, p.window_start
  FROM (SELECT id, name, date_bin('10 seconds', date_time, timestamp '2020-01-01') AS window_start
          FROM person) AS p
  JOIN (SELECT DISTINCT seller,
               date_bin('10 seconds', date_time, timestamp '2020-01-01') AS window_start
          FROM auction) AS a
    ON p.id = a.seller AND p.window_start = a.window_start
